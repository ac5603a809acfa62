"""Installs missing Python packages into the pod's volume.

pip runs with --user, and PYTHONUSERBASE is the volume: it finds the packages of the image, keeps those that meet the
requirements, and installs other versions with higher precedence.
"""

import os
import platform
import re
import sys
from importlib import metadata
from urllib.parse import urlsplit

# Packages of the engine. A package that requires another version of them cannot be installed.
_PROTECTED = ("ansible-core", "ansible-runner", "ansible-runner-http")

# Folders with wheels, and the names that their folders for one architecture have.
_WHEELHOUSES = ("wheelhouse", "collections/wheelhouse")
_ARCHITECTURES = {
    "x86_64": ("x86_64", "amd64"),
    "aarch64": ("aarch64", "arm64"),
    "s390x": ("s390x",),
    "ppc64le": ("ppc64le",),
}


class Packages:
    def __init__(self, settings, runner):
        self.settings, self.runner, self.plan = settings, runner, settings.plan
        self.base = os.path.join(settings.home, "python")
        self.problems = []

    def install(self):
        """Installs missing packages and returns the problems."""
        files = [file for file in self.plan.get("python", []) if not _for_another_machine(file["file"])]
        if not files:
            return []
        code, _ = self.runner.run([sys.executable, "-m", "pip", "--version"], {})
        if code != 0:
            return [f"the runtime image has no pip, which {', '.join(f['file'] for f in files)} needs"]
        os.makedirs(self.base, exist_ok=True)
        self.origins = self._constraints(files)
        self.constraints = self.runner.write("constraints.txt", "".join(line + "\n" for line in sorted(self.origins)))
        for file in files:
            self._install_file(file)
        self._link()
        return self.problems

    def _install_file(self, file):
        path = os.path.join(self.settings.content, file["file"])
        # First without an index, to use the packages of the image or of a folder with wheels without a request.
        for options in (["--no-index"], []):
            code, output = self._install(file, [*options, "-r", path])
            if code == 0:
                return
        if not self._report_unavailable(file):
            why = self._conflict(file, output) or gist(output)
            self.problems.append(f"Python packages of {file['file']} could not be installed from {self._index(file)}: {why}")

    def _report_unavailable(self, file):
        """Checks the file's requirements one by one, and reports those that cannot be installed. Returns whether there are
        any."""
        before = len(self.problems)
        options = file.get("options") or []
        for line in file["requirements"]:
            path = self.runner.write("one.txt", line + "\n")
            if line.startswith("-") or self._install(file, [*options, "--no-index", "--no-deps", "-r", path])[0] == 0:
                continue
            code, output = self._pip(file, "download", [*options, "--no-deps", "-d", self.runner.folder("download"), "-r", path])
            if code != 0:
                shown = self.settings.redact(line.split(" --")[0])
                self.problems.append(
                    f"Python package {shown} (from {file['file']}) could not be installed from {self._index(file)}: {gist(output)}"
                )
        return len(self.problems) > before

    def _conflict(self, file, output):
        """Returns the conflicting requirements with their origins, or "" if pip reports no conflict."""
        found = re.search(r"The conflict is caused by:\n(.*?)\n\s*\n", output, re.S)
        if not found:
            return ""
        requirements = []
        for line in (line.strip() for line in found.group(1).splitlines()):
            need, requested = line.replace("The user requested ", ""), line.startswith("The user requested ")
            if not requested:
                requirements.append(line)
            elif not need.startswith("(constraint) "):
                requirements.append(f"{need} (from {file['file']})")
            else:
                requirements += self._requirements_elsewhere(need.split(" ", 1)[1], file["file"])
        return "these exclude each other: " + ", ".join(dict.fromkeys(requirements))

    def _requirements_elsewhere(self, constraint, here):
        """Returns the requirements of other files for a package, since pip merges the ranges of all files."""
        requirements = []
        for line, origins in sorted(self.origins.items()):
            others = ", ".join(sorted(origins - {here}))
            if others and _project(line) == _project(constraint):
                requirements.append(f"{line} (from {others})")
        return requirements

    def _install(self, file, arguments):
        return self._pip(file, "install", ["--user", "--no-warn-script-location", "-c", self.constraints, *arguments])

    def _pip(self, file, action, arguments):
        command = [
            sys.executable, "-m", "pip", action, "--no-input", "--disable-pip-version-check", "--no-cache-dir",
            "--progress-bar", "off", "--retries", "1", "--timeout", "20",
        ]
        for folder in self._wheelhouses(file["file"]):
            command += ["--find-links", folder]
        cwd = os.path.dirname(os.path.join(self.settings.content, file["file"]))
        return self.runner.run(command + arguments, self._environment(), cwd)

    def _wheelhouses(self, file):
        """Returns the folders of the archive that have wheels, for this machine too, without being named as links."""
        folders = dict.fromkeys((*_WHEELHOUSES, os.path.join(os.path.dirname(file), "wheelhouse")))
        own = _ARCHITECTURES.get(platform.machine(), (platform.machine(),))
        candidates = [os.path.join(self.settings.content, folder, *below) for folder in folders for below in ((), *((name,) for name in own))]
        return [folder for folder in candidates if os.path.isdir(folder)]

    def _environment(self):
        env = {"PYTHONUSERBASE": self.base, "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_NO_COLOR": "1"}
        url, credentials = self.plan.get("pipIndexURL", ""), self.settings.credentials()
        if url:
            env["PIP_INDEX_URL"] = url
        if url.startswith("http://"):
            # The administrator has chosen HTTP.
            env["PIP_TRUSTED_HOST"] = urlsplit(url).netloc
        if url and credentials.get("pipUsername"):
            words = (urlsplit(url).hostname, credentials["pipUsername"], credentials["pipPassword"])
            host, user, password = (_quoted(word) for word in words)
            env["NETRC"] = self.runner.write("netrc", f"machine {host} login {user} password {password}\n")
        return env

    def _constraints(self, files):
        """Returns the lines of a pip constraints file with their origins: the requirements of all files apply to each of
        them, and the versions of the engine's packages are fixed."""
        from packaging.requirements import InvalidRequirement, Requirement

        origins = {}
        for name in _PROTECTED:
            try:
                origins[f"{name}=={metadata.version(name)}"] = {"the runtime image"}
            except metadata.PackageNotFoundError:
                pass
        for file, line in ((file["file"], line) for file in files for line in file["requirements"]):
            try:
                need = Requirement(line.split(" --")[0])
            except InvalidRequirement:
                continue
            if not need.url and need.specifier:
                text = f"{need.name}{need.specifier}" + (f" ; {need.marker}" if need.marker else "")
                origins.setdefault(text, set()).add(file)
        return origins

    def _index(self, file):
        """Returns the indexes and links that pip uses."""
        options = file.get("options") or []
        given = {option: [v for o, v in zip(options, options[1:]) if o in names] for option, names in (
            ("links", ("-f", "--find-links")), ("index", ("-i", "--index-url")), ("extra", ("--extra-index-url",)),
        )}
        index = given["index"][:1] or [self.plan.get("pipIndexURL") or os.environ.get("PIP_INDEX_URL") or self._configured_index()]
        places = given["links"] + ([] if "--no-index" in options else index + given["extra"])
        return self.settings.redact(", ".join(places) or "nowhere (--no-index)")

    def _configured_index(self):
        code, output = self.runner.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], {})
        return output.strip() if code == 0 else "https://pypi.org/simple"

    def _link(self):
        """Links the folder of the packages, whose name contains Python's version, to the path in PYTHONPATH."""
        code = "import site; print(site.getusersitepackages())"
        _, output = self.runner.run([sys.executable, "-c", code], {"PYTHONUSERBASE": self.base})
        link = os.path.join(self.settings.home, "site-packages")
        if os.path.islink(link):
            os.remove(link)
        os.symlink(os.path.relpath(output.strip(), self.settings.home), link)


_BROKEN = re.compile(r"connection broken by '.{0,500}?((?:\[Errno -?\d+\] )?[^:'\[\n]{1,500})'\)*'?:")
_REFUSED = re.compile(r"(40[13]) (?:Client )?Error[^\n]*")


def gist(output):
    """Returns the error of pip on one line."""
    errors = [line[len("ERROR: ") :].strip() for line in output.splitlines() if line.startswith("ERROR: ")]
    errors = [line for line in errors if not line.startswith(("No matching distribution", "ResolutionImpossible"))]
    errors += sorted({"the server answered " + match.group(0).strip() for match in _REFUSED.finditer(output)})
    errors += sorted({"the server was not reached: " + match.group(1).strip() for match in _BROKEN.finditer(output)})
    lines = list(dict.fromkeys(errors)) or [line.strip() for line in output.splitlines() if line.strip()][-3:]
    return "; ".join(lines)[:600] or "it printed nothing"


def _project(requirement):
    """Returns the normalized name of a package."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]*", requirement).group(0)).lower()


def _quoted(word):
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _for_another_machine(file):
    """Returns whether a requirements file belongs to the wheels of another architecture."""
    folder, name = os.path.split(os.path.dirname(file))
    others = [name for machine, names in _ARCHITECTURES.items() if machine != platform.machine() for name in names]
    return os.path.basename(folder) == "wheelhouse" and name in others
