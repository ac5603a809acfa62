package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/author/scenario/suite"
	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// testOptions are the flags of test.
type testOptions struct {
	localFlags
	container containerFlags
	names     []string
	junit     string
	verbose   bool
}

func testCommand() *cobra.Command {
	o := testOptions{}
	command := &cobra.Command{
		Use:   "test PATH --host USER@HOST",
		Short: "Run the scenarios of a collection without a cluster",
		Long: `Runs the scenarios in the folder ` + scenario.Dir + ` of a collection, as the command run does. A scenario has a resource,
and what has to be true of its runs. PATH is the collection's folder. These steps are done unless a scenario says otherwise:

  unreachable   a run fails if the endpoint does not answer
  creation      the first run has the expected outcome and status
  idempotence   a second run changes nothing
  check         a drift check works and finds nothing, for kinds with supportsCheckMode
  deletion      the finalizer playbook succeeds, and no object of the playbook remains in Kubernetes
  check drift   a drift check then finds that something is gone, and changes nothing
  recreation    a run after the deletion changes as many tasks as the first one, and is deleted again

Systems are changed as by a cluster: use one for tests, and names that nothing else has.

The exit code is 0 if all was as expected, 1 if not, and 2 if a scenario cannot be read or run.`,
		Example: `  # On this machine
  kubectl collection test zos_users --local

  # On a z/OS system, with a report for Jenkins or GitLab
  kubectl collection test zos_users --host ibmuser@lpar1.example.com --junit report.xml

  # Without Ansible on this machine
  kubectl collection test zos_users --host ibmuser@lpar1.example.com --container

  # One scenario, with the output of all runs
  kubectl collection test zos_users --host ibmuser@lpar1.example.com --scenario hello --verbose`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.container.check(cmd); err != nil {
				return err
			}
			if o.container.on {
				return o.runInContainer(cmd, args)
			}
			options, err := o.suite(cmd, args[0])
			if err != nil {
				return err
			}
			return o.run(cmd, options)
		},
	}
	o.addFlags(command, "file with the ZosEndpoint, Secrets, and other objects that playbooks of all scenarios read; may be repeated")
	o.container.addFlags(command)
	flags := command.Flags()
	flags.StringArrayVar(&o.names, "scenario", nil, "name of a scenario: run only this one; may be repeated")
	flags.StringVar(&o.junit, "junit", "", "file for a report in JUnit's format")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "print the output of all runs, not only of steps that fail")
	return command
}

// runInContainer checks the flags, and runs the scenarios in a container.
func (o *testOptions) runInContainer(cmd *cobra.Command, args []string) error {
	ctx, stop := kit.UntilSignal(cmd.Context())
	defer stop()
	if _, err := o.complete(); err != nil {
		return err
	}
	return o.container.run(ctx, cmd, args)
}

// suite reads collection and scenarios, and checks the flags.
func (o *testOptions) suite(cmd *cobra.Command, path string) (suite.Options, error) {
	run, err := o.complete()
	if err != nil {
		return suite.Options{}, err
	}
	if run.Source, err = author.LoadRunSource(path); err != nil {
		return suite.Options{}, author.Refused(cmd, path, err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return suite.Options{}, fmt.Errorf("give the folder of a collection: %w", err)
	}
	defer root.Close()
	scenarios, problems, err := scenario.Read(root.FS(), run.Source.Collection)
	if err == nil && len(problems) > 0 {
		if err = author.WriteText(cmd.ErrOrStderr(), path, problems); err == nil {
			err = errors.New("no scenario was run: correct them first")
		}
	}
	if err != nil {
		return suite.Options{}, err
	}
	if o.verbose {
		run.Output = cmd.OutOrStdout()
	}
	scenarios, err = selected(scenarios, o.names)
	return suite.Options{Folder: path, Scenarios: scenarios, Run: run}, err
}

// selected returns the scenarios with the given names, or all if there are none.
func selected(scenarios []scenario.Scenario, names []string) ([]scenario.Scenario, error) {
	if len(scenarios) == 0 {
		return nil, fmt.Errorf("the collection has no scenarios: write one into %s, as init does", scenario.Dir)
	}
	if len(names) == 0 {
		return scenarios, nil
	}
	var out []scenario.Scenario
	var known []string
	for _, s := range scenarios {
		known = append(known, s.Name)
		if slices.Contains(names, s.Name) {
			out = append(out, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--scenario %s: the collection has %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

func (o *testOptions) run(cmd *cobra.Command, options suite.Options) error {
	ctx, stop := kit.UntilSignal(cmd.Context())
	defer stop()
	w, last := cmd.OutOrStdout(), ""
	options.Report = func(s scenario.Scenario, step suite.Step) {
		if s.File != last {
			fmt.Fprintln(w, suite.Title(s))
			last = s.File
		}
		step.Print(w)
	}
	results, err := suite.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := o.writeJUnit(options, results); err != nil {
		return err
	}
	done, failed := suite.Count(results)
	fmt.Fprintf(w, "%s, %s", findings.Plural(len(results), "scenario"), findings.Plural(done, "step"))
	if len(failed) == 0 && ctx.Err() == nil {
		fmt.Fprintln(w, ": all as expected")
		return nil
	}
	fmt.Fprintf(w, ", not as expected: %s\n", strings.Join(failed, ", "))
	switch {
	case ctx.Err() != nil:
		return errors.New("cancelled: what the last scenario created is still there")
	case suite.HasErrors(results):
		return errors.New("not all steps could be done")
	}
	return kit.ErrFindings
}

// writeJUnit writes the report, if one is asked for.
func (o *testOptions) writeJUnit(options suite.Options, results []suite.Result) error {
	if o.junit == "" {
		return nil
	}
	f, err := os.Create(o.junit)
	if err != nil {
		return err
	}
	galaxy := options.Run.Source.Collection.Galaxy
	return errors.Join(suite.WriteJUnit(f, galaxy.Namespace+"."+galaxy.Name, results), f.Close())
}
