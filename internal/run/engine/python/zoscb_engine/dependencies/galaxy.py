"""Installs missing Ansible collections.

ansible-galaxy installs one collection at a time. Versions are resolved here, so that each problem can be reported with its
origin, and collections of the image are used without a request to a server. The newest version that meets the known
requirements is installed. Older versions of a collection with conflicting requirements are not tried.
"""

import json
import os
import re
import shutil
import sys

_NAME = re.compile(r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$")
# The name and range that follow are part of the problem already.
_NO_VERSION = re.compile(r"Failed to resolve the requested dependencies map\. Could not satisfy the following requirements:.*")
_METADATA_LIMIT = 8 << 20
_FETCH_LIMIT = 300
_SAME_LIMIT = 4


class Need:
    """A version range of a collection, with the origin of the requirement."""

    def __init__(self, name, version, origin, source=""):
        self.name, self.version, self.origin, self.source = name, version or "*", origin, source


class Collections:
    def __init__(self, settings, runner):
        self.settings, self.runner, self.plan = settings, runner, settings.plan
        self.problems = []
        # Collections whose version cannot change: this one, and those from files and URLs.
        self.fixed = {self.plan["collection"]}
        self.failed = set()
        self.fetched = {}

    def install(self):
        """Installs missing collections and returns the problems."""
        direct = []
        for entry in self.plan.get("collections", []):
            if entry["type"] == "galaxy":
                direct.append(Need(entry["name"], entry.get("version"), entry["file"], entry.get("source", "")))
            else:
                self._install_artifact(entry)
        while True:
            missing = self._next_missing(direct)
            if not missing:
                return self.problems
            self._install_missing(*missing)

    def _next_missing(self, direct):
        """Returns the first collection that is missing or does not meet the requirements, with its requirements, or None."""
        needs, queue = {}, sorted(self.fixed)
        for need in direct:
            needs.setdefault(need.name, []).append(need)
            queue.append(need.name)
        seen = set()
        while queue:
            name = queue.pop(0)
            if name in seen:
                continue
            seen.add(name)
            found = self.find(name)
            # The requirements of this collection are direct ones.
            if not found or name == self.plan["collection"]:
                continue
            for dependency, version in sorted(found.dependencies.items()):
                needs.setdefault(dependency, []).append(Need(dependency, version, f"{name} {found.version}"))
                queue.append(dependency)
        for name in sorted(needs):
            if name not in self.failed and not self._satisfied(name, needs[name]):
                return name, needs[name]
        return None

    def _satisfied(self, name, needs):
        found = self.find(name)
        return bool(found) and all(fits(found.version, need.version) for need in needs)

    def _install_missing(self, name, needs):
        ranges = sorted({need.version for need in needs} - {"*"})
        who = f"collection {name} {_describe(needs)}"
        if name in self.fixed:
            self._fail(name, f"{who}, but it is there in version {self.find(name).version}")
            return
        self.fetched[name] = self.fetched.get(name, 0) + 1
        if not _NAME.match(name) or self.fetched[name] > _SAME_LIMIT or sum(self.fetched.values()) > _FETCH_LIMIT:
            self._fail(name, f"{who}: no combination of versions was found")
            return
        source = next((need.source for need in needs if need.source), "")
        names, output = self._fetch(f"{name}:{','.join(ranges) or '*'}", source)
        if name not in names:
            self._fail(name, f"{who} could not be installed from {self._server_name(source)}: {gist(output)}")
        elif not self._satisfied(name, needs):
            self._fail(name, f"{who}, but {self._server_name(source)} gave version {self.find(name).version}")

    def _install_artifact(self, entry):
        what = entry["name"]
        if entry["type"] in ("file", "dir"):
            what = os.path.join(self.settings.content, what)
        elif entry["type"] == "git":
            what = what if what.startswith(("git+", "git@")) else "git+" + what
            what += "," + entry["version"] if entry.get("version") not in (None, "", "*") else ""
        names, output = self._fetch(what, "")
        if not names:
            shown = self.settings.redact(entry["name"])
            self.problems.append(f"collection {shown} (from {entry['file']}) could not be installed: {gist(output)}")
        self.fixed.update(names)

    def _fail(self, name, problem):
        self.failed.add(name)
        self.problems.append(problem)

    def _fetch(self, what, source):
        """Installs one collection. Returns the names of the installed collections, none if it failed, and the output."""
        incoming = os.path.join(self.settings.collections, ".incoming")
        shutil.rmtree(incoming, ignore_errors=True)
        os.makedirs(incoming)
        command = ["ansible-galaxy", "collection", "install", "--no-deps", "-p", incoming, what]
        code, output = self.runner.run(command, self._environment(incoming, source))
        names = []
        if code == 0:
            names, clash = self._take(os.path.join(incoming, "ansible_collections"))
            output += clash
        shutil.rmtree(incoming, ignore_errors=True)
        return names, output

    def _take(self, incoming):
        """Moves installed collections to their final folder."""
        names, clash = [], ""
        for namespace in sorted(os.listdir(incoming)) if os.path.isdir(incoming) else []:
            for name in sorted(os.listdir(os.path.join(incoming, namespace))) if not namespace.endswith(".info") else []:
                place = os.path.join(self.settings.collections, "ansible_collections", namespace, name)
                if os.path.islink(place):
                    clash = f"\nERROR! {namespace}.{name} is this collection itself\n"
                    continue
                shutil.rmtree(place, ignore_errors=True)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.rename(os.path.join(incoming, namespace, name), place)
                names.append(f"{namespace}.{name}")
        return names, clash

    def _environment(self, incoming, source):
        home = self.runner.folder("ansible")
        env = {
            "ANSIBLE_HOME": home, "ANSIBLE_LOCAL_TEMP": os.path.join(home, "tmp"), "ANSIBLE_GALAXY_CACHE_DIR": home,
            "ANSIBLE_GALAXY_TOKEN_PATH": os.path.join(home, "galaxy_token"), "ANSIBLE_COLLECTIONS_PATH": incoming,
            "ANSIBLE_NOCOLOR": "1", "ANSIBLE_GALAXY_DISPLAY_PROGRESS": "false", "ANSIBLE_DEVEL_WARNING": "false",
        }
        url, credentials = self._server(source)
        if not url:
            return env
        prefix = "ANSIBLE_GALAXY_SERVER_CONFIGURED_"
        env.update({"ANSIBLE_GALAXY_SERVER_LIST": "configured", prefix + "URL": url})
        for key, name in (
            ("galaxyToken", "TOKEN"), ("galaxyAuthURL", "AUTH_URL"), ("galaxyUsername", "USERNAME"), ("galaxyPassword", "PASSWORD")
        ):
            if credentials.get(key):
                env[prefix + name] = credentials[key]
        return env

    def _server(self, source):
        """Returns the URL of the server, "" for the image's configuration, and the credentials for it."""
        credentials = {k: v for k, v in self.settings.credentials().items() if k.startswith("galaxy")}
        configured = self.plan.get("galaxyURL", "")
        if source and source.rstrip("/") != configured.rstrip("/"):
            return source, {}
        if not configured and credentials:
            configured = _constants().GALAXY_SERVER
        return configured, credentials

    def _server_name(self, source):
        url, _ = self._server(source)
        constants = _constants()
        servers = [name for name in constants.GALAXY_SERVER_LIST or [] if name]
        return self.settings.redact(url) or ", ".join(servers) or constants.GALAXY_SERVER

    def find(self, name):
        """Returns the collection that Ansible would use, or None."""
        if not _NAME.match(name):
            return None
        for folder in self._folders():
            place = os.path.join(folder, "ansible_collections", *name.split("."))
            if os.path.isdir(place):
                return Found(place)
        return None

    def _folders(self):
        image = [p for p in os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(":") if p] + [p for p in sys.path if p]
        return [self.settings.collections] + [p for p in image if p != self.settings.collections]


class Found:
    """An installed collection with its version, "*" if it has none, and its dependencies."""

    def __init__(self, place):
        info = self._manifest(os.path.join(place, "MANIFEST.json")) or self._galaxy(os.path.join(place, "galaxy.yml"))
        self.version = str(info.get("version") or "*")
        dependencies = info.get("dependencies")
        self.dependencies = {str(k): str(v) for k, v in dependencies.items()} if isinstance(dependencies, dict) else {}

    def _manifest(self, path):
        try:
            return json.loads(_read(path))["collection_info"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _galaxy(self, path):
        import yaml

        try:
            info = yaml.safe_load(_read(path))
        except (OSError, ValueError, yaml.YAMLError):
            return {}
        return info if isinstance(info, dict) else {}


def fits(version, wanted):
    """Returns whether a version is in a range, as ansible-galaxy decides it."""
    from ansible.galaxy.dependency_resolution.versioning import meets_requirements

    try:
        return meets_requirements(version, wanted.replace(" ", ""))
    except (ValueError, TypeError, AttributeError):
        return False


def gist(output):
    """Returns the error of ansible-galaxy on one line."""
    at = max(output.rfind("ERROR! "), output.rfind("[ERROR]: "))
    lines = [line.strip() for line in output[max(at, 0) :].splitlines() if line.strip() and not line.startswith("[WARNING]")]
    text = " ".join(lines if at >= 0 else lines[-3:])
    text = text.split(" Hint: ")[0].replace("ERROR! ", "").replace("[ERROR]: ", "")
    text = _NO_VERSION.sub("it has no version that fits", text)
    return text[:500] or "it printed nothing"


def _describe(needs):
    ranges = {}
    for need in needs:
        ranges.setdefault(need.version, set()).add(need.origin)
    return " and ".join(
        f"{'(any version)' if version == '*' else version} (from {', '.join(sorted(ranges[version]))})" for version in sorted(ranges)
    )


def _constants():
    from ansible import constants

    return constants


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read(_METADATA_LIMIT)
