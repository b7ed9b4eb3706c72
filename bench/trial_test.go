package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// values answers one of these after the other.
func values(list ...float64) func(context.Context) (float64, error) {
	n := -1
	return func(context.Context) (float64, error) {
		n++
		return list[n], nil
	}
}

// TestRatiosAreOfRounds: the first round warms up and does not count; a ratio is
// of measures of the same round, its median is what the target is held to.
func TestRatiosAreOfRounds(t *testing.T) {
	s := &suite{rounds: 5}
	for name, c := range map[string]struct {
		trial
		median, min, max float64
		met              bool
	}{
		"faster":     {trial{name: "x", unit: "ms", target: 4, ours: values(900, 1, 2, 1, 1, 1), reference: values(1, 10, 10, 4, 5, 3)}, 5, 3, 10, true},
		"too slow":   {trial{name: "x", unit: "ms", target: 6, ours: values(900, 1, 2, 1, 1, 1), reference: values(1, 10, 10, 4, 5, 3)}, 5, 3, 10, false},
		"more":       {trial{name: "x", unit: "calls/s", rate: true, target: 2, ours: values(1, 20, 30, 40, 50, 60), reference: values(900, 10, 10, 10, 10, 10)}, 4, 2, 6, true},
		"not slower": {trial{name: "x", unit: "ms", atMost: true, target: 1.1, ours: values(9, 1, 1.2, 1, 1, 1), reference: values(1, 1, 1, 1, 1, 1)}, 1, 1, 1.2, true},
		"a budget":   {trial{name: "x", unit: "ms", single: true, target: 100, ours: values(9, 101, 102, 103, 99, 98)}, 101, 98, 103, false},
	} {
		r := s.measure(t.Context(), c.trial)
		if r.err != nil || r.ratio != (spread{c.median, c.min, c.max}) || r.met() != c.met {
			t.Errorf("%s: %+v, met %v, %v", name, r.ratio, r.met(), r.err)
		}
	}
}

// TestNoRatioOfAFailedRun: neither of ours nor of the reference.
func TestNoRatioOfAFailedRun(t *testing.T) {
	s := &suite{rounds: 5}
	broken := func(context.Context) (float64, error) { return 0, errors.New("broken") }
	good := func(context.Context) (float64, error) { return 1, nil }
	nothing := func(context.Context) (float64, error) { return 0, nil }
	for name, c := range map[string]trial{
		"ours": {ours: broken, reference: good}, "the reference": {ours: good, reference: broken}, "nothing measured": {ours: good, reference: nothing},
		"preparing": {prepare: func(context.Context) error { return errors.New("broken") }, ours: good, reference: good},
	} {
		c.name, c.against = "row", "reference"
		r := s.measure(t.Context(), c)
		text := string((&report{rows: []result{r}}).markdown())
		if r.err == nil || r.met() || !strings.Contains(r.line(), "FAILED") || !strings.Contains(text, "**failed**") || strings.Contains(r.line(), "target") {
			t.Errorf("%s: %s\n%s", name, r.line(), text)
		}
	}
}

// TestNothingIsNoRun: whatever selects nothing, or would write a part of the
// table where the whole belongs, is refused before anything is started.
func TestNothingIsNoRun(t *testing.T) {
	for want, o := range map[string]Options{
		"there are":           {Only: "write"},
		`named "inboxes"`:     {Only: "inboxes"},
		`named ""`:            {Only: "/ack"},
		"growth has tables":   {Only: "growth/x"},
		"behind writes/":      {Only: "writes/"},
		"is not written down": {Only: "writes", Results: "RESULTS.md"},
	} {
		o.BinDir = t.TempDir() // nothing could be started from there
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	for _, only := range []string{"", "inbox", "writes/ack", "growth"} {
		if err := (Options{Only: only}).check(); err != nil {
			t.Errorf("%q: %v", only, err)
		}
	}
}
