// Package chat holds the rules of read state as pure functions over plain
// types: positions, membership periods, what counts as unread, what input is
// acceptable and which error says so. It does no I/O and imports only the
// standard library; the SQL of package store is held against it on random
// histories.
package chat
