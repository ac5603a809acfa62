"""Lookup of the region role."""

from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: region_parameters
short_description: Start-up parameters of a region
description: Adds the parameters that every region has to those that were given.
options:
  _terms: {description: Lists of dictionaries with name and value., required: true}
  max_tasks: {description: How many tasks run at once., type: int, default: 50}
"""


class LookupModule(LookupBase):
    """Merge the given parameters over the common ones."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        merged = {"MXT": str(self.get_option("max_tasks")), "START": "AUTO"}
        for term in terms:
            merged.update({item["name"]: item.get("value", "") for item in term})
        return [merged]
