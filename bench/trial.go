package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// trial is one row: what is measured against a reference, and the target.
type trial struct {
	name, against string
	// unit is what both measures are in.
	unit string
	// rate says that more is better; else they are durations, and less is.
	rate bool
	// target bounds ours compared with the reference: how many times better at
	// least, or, with atMost, how many times as much at most; 0 judges nothing.
	target float64
	atMost bool
	// prepare runs before the first round, both measures once, to warm up.
	prepare         func(ctx context.Context) error
	ours, reference func(ctx context.Context) (float64, error)
	// single is a row without a reference: its target is what ours may be at most.
	single bool
	// note is added to the row.
	note func() string
}

// result is what became of a trial.
type result struct {
	trial
	ours, reference spread // of the measures
	ratio           spread
	err             error
	took            time.Duration
	noted           string
}

// spread is a median with the smallest and the largest.
type spread struct{ median, min, max float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	return spread{v[len(v)/2], v[0], v[len(v)-1]}
}

// measure runs a trial: once to warm up, then in turns. A run that fails ends
// it: nothing is said then.
func (s *suite) measure(ctx context.Context, t trial) (r result) {
	began := time.Now()
	r.trial = t
	defer func() { r.took = time.Since(began) }()
	fail := func(err error) result { r.err = err; return r }
	if t.prepare != nil {
		if err := t.prepare(ctx); err != nil {
			return fail(err)
		}
	}
	var ours, reference, ratios []float64
	for round := range 1 + s.rounds {
		a, err := t.ours(ctx)
		if err != nil {
			return fail(err)
		}
		b := 1.0
		if !t.single {
			if b, err = t.reference(ctx); err != nil {
				return fail(fmt.Errorf("the reference: %w", err))
			}
		}
		if a <= 0 || b <= 0 {
			return fail(fmt.Errorf("nothing was measured: %g and %g %s", a, b, t.unit))
		}
		if round == 0 {
			continue
		}
		ours, reference = append(ours, a), append(reference, b)
		if t.rate || t.atMost || t.single {
			ratios = append(ratios, a/b)
		} else {
			ratios = append(ratios, b/a)
		}
	}
	r.ours, r.reference, r.ratio = spreadOf(ours), spreadOf(reference), spreadOf(ratios)
	if t.note != nil {
		r.noted = t.note()
	}
	return r
}

// met reports whether the median meets the target.
func (r result) met() bool {
	if r.err != nil {
		return false
	}
	if r.target == 0 {
		return true
	}
	if r.atMost || r.single {
		return r.ratio.median <= r.trial.target
	}
	return r.ratio.median >= r.trial.target
}

func (r result) line() string {
	if r.err != nil {
		return fmt.Sprintf("FAILED  %s: %v", r.name, r.err)
	}
	verdict := "met"
	switch {
	case r.target == 0:
		verdict = "shown"
	case !r.met():
		verdict = "MISSED"
	}
	measured := fmt.Sprintf("%s %s", number(r.unit, r.ours.median), r.unit)
	if r.single {
		measured += fmt.Sprintf(" (%s to %s) against %s", number(r.unit, r.ours.min), number(r.unit, r.ours.max), r.against)
	} else {
		measured += fmt.Sprintf(" against %s (%s); %s", number(r.unit, r.reference.median), r.against, r.compared())
	}
	return fmt.Sprintf("%-6s  %s: %s, target %s [%.0f s]", verdict, r.name, measured, r.goal(), r.took.Seconds()) + r.noted
}

// compared is the ratio with its spread.
func (r result) compared() string {
	return fmt.Sprintf("%s (%s to %s)", factor(r.ratio.median), factor(r.ratio.min), factor(r.ratio.max))
}

// goal is the target in words.
func (r result) goal() string {
	switch {
	case r.target == 0:
		return "none"
	case r.single:
		return "≤ " + number(r.unit, r.target) + " " + r.unit
	case r.atMost:
		return "≤ " + factor(r.target) + " ×"
	}
	return "≥ " + factor(r.target) + " ×"
}

func factor(f float64) string {
	if f >= 10 {
		return fmt.Sprintf("%.0f", f)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", f), "0")
}

func number(unit string, f float64) string {
	if strings.HasSuffix(unit, "/s") || f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
