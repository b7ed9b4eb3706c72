package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// rate runs call from many callers at once for a while, each one call after the
// other, and answers how many succeeded in a second. Any error fails the run.
func rate(ctx context.Context, callers int, length time.Duration, call func(ctx context.Context, caller int) error) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done atomic.Int64
	errs := make([]error, callers)
	var running sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		running.Go(func() {
			for time.Since(began) < length && ctx.Err() == nil {
				if err := call(ctx, caller); err != nil {
					errs[caller] = err
					cancel()
					return
				}
				done.Add(1)
			}
		})
	}
	running.Wait()
	took := time.Since(began)
	return float64(done.Load()) / took.Seconds(), first(errs)
}

// first is the first error that is not the end of the others' context.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// typical is the median of several times of a call in milliseconds.
func typical(times int, call func() error) (float64, error) {
	took := make([]float64, times)
	for i := range took {
		began := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	return spreadOf(took).median, nil
}
