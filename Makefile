# Browser tests run in a process of their own: Playwright drives an asyncio loop in the main thread, and
# trio-asyncio, once imported, makes every asyncio loop a Trio one.
# Every target does its own set-up: a virtual environment in .venv, and for tests the services they need.
.DEFAULT_GOAL := help
.PHONY: help demo test proofs soak lint docs chaos bench clean
BIN := .venv/bin

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/' | expand -t 16

demo: ## run the main job on the embedded broker, and account for every message
	@.ci/setup-venv
	@env -u CRAIG_MQ_AMQP_URL $(BIN)/craig-mq demo

test: ## run the tests, heavy scenarios at a reduced count
	@.ci/setup-venv test lint docs
	@.ci/setup-services
	@$(BIN)/python -m pytest -m "not soak and not browser" -n 2 --dist loadfile --ignore=tests/supervisors
	@$(BIN)/python -m pytest -m "browser and not soak" tests/review tests/console
	@$(MAKE) --no-print-directory proofs

proofs: ## prove: supervisors (branches, schedules, random trees, planted defects); planted bugs; 20,000 simulated runs
	@.ci/setup-venv test lint docs
	@$(BIN)/coverage run --source=supervisors -m pytest -q -m "not soak" tests/supervisors
	@$(BIN)/coverage report --skip-covered --fail-under=100
	@$(BIN)/python -m supervisors.testing.arms
	@$(BIN)/python -m supervisors.testing.forest
	@$(BIN)/python tests/supervisors/mutation_gate.py
	@$(BIN)/python -m craig_mq.testing.planted
	@$(BIN)/python -m craig_mq.testing.simulate --runs 20000 --jobs 2 --every-cell

soak: ## run every heavy scenario at its full count
	@.ci/setup-venv test lint docs
	@.ci/setup-services
	@$(BIN)/python -m pytest -m "soak and not browser"
	@$(BIN)/python -m pytest -m "soak and browser" tests/review tests/console

lint: ## types, style, imports and cancellation checks
	@.ci/setup-venv test lint docs
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/flake8 --select ASYNC --enable=ASYNC,ASYNC900 craig_mq supervisors
	@$(BIN)/lint-imports
	@$(BIN)/mypy && $(BIN)/pyright --pythonpath $(BIN)/python

docs: ## build the documentation, warnings as errors
	@.ci/setup-venv test lint docs
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

chaos: ## break RabbitMQ 3.10 and 4, one node and three, and account for every message (about 40 minutes; needs root)
	@.ci/setup-venv test
	@.ci/setup-services
	@.ci/setup-rabbitmq-4
	@$(BIN)/python -m craig_mq.testing.chaos --messages 35000 --events 70 --root / --root .rig/rabbitmq-4 \
		--on classic --on quorum --on cluster --report docs/explanation

bench: ## measure against peers in one run (about a minute and a half)
	@.ci/setup-venv test bench
	@.ci/setup-services
	@$(BIN)/python -m benchmarks --quick

clean: ## remove everything the other targets made
	rm -rf .venv .rig docs/_build
