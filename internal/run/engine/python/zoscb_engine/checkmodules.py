"""The modules that a drift check does not run: what they do or return in check mode is not what a run would do."""

from ansible.plugins.loader import action_loader, module_loader

# In some release, they declare support of check mode, and change something in it: they never read it, read it when all is done, or
# only for a part.
_CHANGE = (
    "ibm.ibm_zhmc.zhmc_lpar_command",
    "ibm.ibm_zhmc.zhmc_partition_command",
    "ibm.ibm_zhmc.zhmc_session",
    "ibm.ibm_zos_core.zos_job_submit",
    "ibm.ibm_zos_core.zos_lineinfile",
    "ibm.ibm_zos_core.zos_mount",  # Creates the mount point, and the backup.
    "ibm.ibm_zos_core.zos_operator",
    "ibm.ibm_zos_core.zos_started_task",
    "ibm.ibm_zos_core.zos_tso_command",
    "ibm.ibm_zos_core.zos_unarchive",
    "ibm.ibm_zos_core.zos_user",
    "ibm.ibm_zos_ims.ims_acb_gen",
    "ibm.ibm_zos_ims.ims_catalog_populate",
    "ibm.ibm_zos_ims.ims_catalog_purge",
    "ibm.ibm_zos_ims.ims_dbrc",
    "ibm.ibm_zos_ims.ims_ddl",
)

# They return at once in check mode, and report no change whatever there is.
_DO_NOT_LOOK = (
    "ibm.ibm_zos_core.zos_archive",
    "ibm.ibm_zos_core.zos_data_set",
    "ibm.ibm_zos_core.zos_mvs_raw",
    "ibm.ibm_zos_core.zos_volume_init",
    "ibm.ibm_zos_ims.ims_command",
)

# Check mode skips their modules, and their action plugins go on: they transfer files, remove some, or return a result that is neither
# skipped nor one of a run.
_GO_ON = (
    "ibm.ibm_zos_core.zos_copy",
    "ibm.ibm_zos_core.zos_fetch",
    "ibm.ibm_zos_core.zos_script",
)


class Modules:
    """The built-in modules, and those that administrators add: full names, or short ones for modules of no collection."""

    def __init__(self, added=()):
        self._names = frozenset(_CHANGE + _DO_NOT_LOOK + _GO_ON + tuple(added))
        self._short = frozenset(name.rpartition(".")[2] for name in self._names)

    def include(self, name, collections):
        """Returns whether a name stands for such a module: after redirections, and for a short one in the collections of
        the task. A copy of a listed module that is in no collection is one, too."""
        return any(known in self._names or ("." not in known and known in self._short) for known in _names(name, collections))


def _names(name, collections):
    """Returns the full name that Ansible finds for a name, and those that redirected to it. The name is short if what was
    found is in no collection."""
    for loader in (module_loader, action_loader):
        found = loader.find_plugin_with_context(name, collection_list=collections)
        if found.resolved:
            return [found.resolved_fqcn] + [other for other in found.redirect_list if other.count(".") > 1]
    return [name.removeprefix("ansible.legacy.")]
