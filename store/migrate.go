package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"tidemark/migrations"
)

// ErrNewerSchema says that the database was migrated by a newer binary than this one.
var ErrNewerSchema = errors.New("the database's schema is newer than this binary knows; run a newer tidemark")

// Migrate brings the database at url up to the schema that this binary knows.
// It runs under a lock of the database, so that several processes may start at
// once. It fails with [ErrNewerSchema] rather than run on a schema from the future.
func Migrate(ctx context.Context, url string) error {
	db, provider, err := openProvider(url)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := compareSchema(ctx, db, provider); err != nil && !errors.Is(err, errOlderSchema) {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	return nil
}

// errOlderSchema says that migrations are still to be run.
var errOlderSchema = errors.New("the database's schema is older than this binary; run tidemark migrate")

// CheckSchema reports whether the database at url has exactly the schema that
// this binary knows, without changing anything.
func CheckSchema(ctx context.Context, url string) error {
	db, provider, err := openProvider(url)
	if err != nil {
		return err
	}
	defer db.Close()
	return compareSchema(ctx, db, provider)
}

func openProvider(url string) (*sql.DB, *goose.Provider, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, fmt.Errorf("the database URL cannot be read: %w", err)
	}
	cfg.ConnectTimeout = 5 * time.Second
	// Probed every second, for at most a minute: the default makes a second
	// process wait five seconds for a migration that takes none.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*cfg)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return db, provider, nil
}

func compareSchema(ctx context.Context, db *sql.DB, provider *goose.Provider) error {
	gs, err := database.NewStore(goose.DialectPostgres, goose.DefaultTablename)
	if err != nil {
		return err
	}
	present := int64(0)
	if exists, err := tableExists(ctx, db); err != nil {
		return err
	} else if exists {
		if present, err = gs.GetLatestVersion(ctx, db); err != nil && !errors.Is(err, database.ErrVersionNotFound) {
			return err
		}
	}
	sources := provider.ListSources()
	switch known := sources[len(sources)-1].Version; {
	case present > known:
		return fmt.Errorf("%w (database %d, binary %d)", ErrNewerSchema, present, known)
	case present < known:
		return errOlderSchema
	}
	return nil
}

func tableExists(ctx context.Context, db *sql.DB) (exists bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, goose.DefaultTablename).Scan(&exists)
	return exists, err
}

// sqlMigrationsApplied tells how many migrations this database has.
const sqlMigrationsApplied = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`

// Ready reports whether the database answers and has the schema's tables.
func (s *Store) Ready(ctx context.Context) error {
	var version int64
	if err := s.requests.QueryRow(ctx, sqlMigrationsApplied).Scan(&version); err != nil {
		return err
	}
	if version == 0 {
		return errOlderSchema
	}
	return nil
}
