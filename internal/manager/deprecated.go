package manager

import "github.com/spf13/pflag"

const (
	byQuota    = "it has no effect: limit the OperatorCollections of a namespace with a ResourceQuota"
	byConstant = "it has no effect: the manager uses the former default"
)

// deprecated are flags of earlier versions without effect, with what is printed if they are set. They take any value, and the help has them, so
// that neither the manager nor the schema of the Helm chart refuses the settings of an earlier version.
var deprecated = map[string]string{
	"leader-elect-lease-duration": byConstant, "leader-elect-renew-deadline": byConstant, "leader-elect-retry-period": byConstant,
	"max-collections": byQuota, "max-collections-per-namespace": byQuota, "max-stored-bytes-per-namespace": byQuota,
	"replication-timeout": byConstant,
	"serving-ca-overlap":  byConstant, "serving-ca-validity": byConstant, "serving-certificate-validity": byConstant,
}

func addDeprecated(flags *pflag.FlagSet) {
	for name, message := range deprecated {
		flags.String(name, "", "setting of earlier versions")
		if err := flags.MarkDeprecated(name, message); err != nil {
			panic(err)
		}
		flags.Lookup(name).Hidden = false
	}
}
