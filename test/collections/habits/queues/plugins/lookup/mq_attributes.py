"""Lookup of the habits_lab.zos_queues collection."""

from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: mq_attributes
short_description: Attributes of an object
description: The attributes that every object of a kind has.
options:
  _terms: {description: Kinds of objects., required: true}
  description: {description: Text that describes the object., type: str, default: ""}
"""

COMMON = {"QMGR": {"CCSID": 1047}}


class LookupModule(LookupBase):
    """Look up the common attributes and add the description."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        return [{**COMMON.get(term, {}), "DESCR": self.get_option("description")} for term in terms]
