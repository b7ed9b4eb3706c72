.DEFAULT_GOAL := help
.PHONY: help build run test test-browser check generate bench bench-quick

GO_TEST_TIMEOUT := 9m

help: ## Show this help.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# The playground's parts come from npm. Without it everything else is built, and
# the page says what is missing.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund

web/dist/graphiql.min.js: web/node_modules/.package-lock.json web/build.mjs $(wildcard web/src/*)
	cd web && npm run --silent build

.PHONY: pages
pages:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/dist/graphiql.min.js || echo "npm failed: building without the playground" >&2; \
	else echo "npm was not found: building without the playground" >&2; fi

build: pages ## Build bin/tidemark.
	go build -o bin/tidemark .

run: build ## Build, then serve with the demo on http://127.0.0.1:8080.
	exec bin/tidemark serve --demo

test: web/dist/graphiql.min.js ## Run all tests on a private PostgreSQL, under the race detector.
	go test -race -timeout $(GO_TEST_TIMEOUT) ./...

test-browser: web/dist/graphiql.min.js ## Run the playground in headless Chromium (CHROMIUM names the browser).
	go test -tags browser -run Playground -timeout 5m .

web/lint/node_modules/.package-lock.json: web/lint/package.json web/lint/package-lock.json
	cd web/lint && npm ci --ignore-scripts --no-audit --no-fund

check: web/lint/node_modules/.package-lock.json ## Check formatting, vet, modules, the schema's style, and that generated code is up to date.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' | grep -v '^graph/generated.go\|^graph/models.go')); \
	if [ -n "$$unformatted" ]; then echo "run gofmt on: $$unformatted" >&2; exit 1; fi
	go vet ./...
	go vet -tags browser .
	go mod tidy -diff
	web/lint/node_modules/.bin/eslint --config web/lint/eslint.config.mjs --max-warnings 0 schema.graphqls
	@before=$$(cat graph/*.go | sha256sum); go tool gqlgen generate; \
	if [ "$$before" != "$$(cat graph/*.go | sha256sum)" ]; then echo "generated code was out of date: commit what make generate writes" >&2; exit 1; fi

generate: ## Generate the GraphQL server and the schema dump.
	go tool gqlgen generate
	TIDEMARK_WRITE_SCHEMA=1 go test -count 1 -run TestSchemaDump ./migrations

bench: build ## Measure against what everyone else pays, and write bench/RESULTS.md (some 10 minutes).
	bin/tidemark bench --results bench/RESULTS.md

bench-quick: build ## The same with less data, in under two minutes, without writing it down.
	bin/tidemark bench --quick
