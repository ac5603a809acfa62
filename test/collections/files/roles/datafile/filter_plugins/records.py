"""Filter of the datafile role."""

from ansible.errors import AnsibleFilterError


def data_records(lines, style, length, separator):
    """Return the lines as they go into a file of the given style.

    text: unchanged. csv: numbered columns. records: cut or padded with dots to a fixed length.
    """
    if isinstance(lines, str):
        raise AnsibleFilterError("lines must be a list")
    if style == "csv":
        return [separator.join((str(number), line)) for number, line in enumerate(lines, 1)]
    if style == "records":
        length = int(length)
        return [line[:length].ljust(length, ".") for line in lines]
    return list(lines)


class FilterModule:
    """Filters that Ansible loads from this file."""

    def filters(self):
        return {"data_records": data_records}
