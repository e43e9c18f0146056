// Plan, dry run, redrive, progress, stop; nothing goes back before the count and the reason are typed.
"use strict";

window.craigConsole.Planner = class {
  #plan = null;
  #told = "";

  constructor(quarantine, onEnded) {
    this.quarantine = quarantine;
    this.onEnded = onEnded;
    this.running = false;
    const { byId, attempt, press } = window.craigConsole;
    byId("plan-form").addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(() => this.dryRun());
    });
    byId("redrive-form").addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(() => this.#redrive());
    });
    press("stop", () => this.stop());
  }

  async dryRun() {
    const { api, byId, announce } = window.craigConsole;
    const form = new FormData(byId("plan-form"));
    const ticked = form.get("scope") === "ticked";
    this.#show(
      await api.post("plan", {
        ...(ticked ? { keys: [...this.quarantine.ticked] } : this.quarantine.selection),
        allow_duplicates: form.has("allow_duplicates"),
        allow_returns: form.has("allow_returns"),
        keep_park_count: form.get("keep_park_count") === "1",
        identity: form.get("identity"),
      }),
    );
    announce(byId("plan-words").textContent);
    byId("plan").scrollIntoView({ block: "nearest" });
  }

  async stop() {
    const { api, announce } = window.craigConsole;
    this.showRun((await api.post("stop")).run);
    announce("Stopping before the next message.");
  }

  #show(plan) {
    const { byId, el, pairs, emptyRow } = window.craigConsole;
    this.#plan = plan;
    const counts = (found) => Object.entries(found).map(([name, count]) => `${count} ${name}`).join(", ") || "-";
    byId("plan").hidden = false;
    byId("plan-words").textContent = `Of ${plan.messages} messages ${plan.selected} would go back (${plan.selected_bytes.toLocaleString("en")} bytes). Nothing was changed.`;
    byId("plan-counts").replaceChildren(
      ...pairs([
        ["verdicts", counts(plan.by_verdict)],
        ["reasons", counts(plan.by_reason)],
        ["routes", counts(plan.routes)],
        ["whole queue seen", plan.complete ? "yes" : "no: only the first part"],
        ["plan file", plan.file],
        ["SHA-256", plan.sha256],
      ]),
    );
    byId("plan-entries").replaceChildren(
      ...(plan.entries.length
        ? plan.entries.map((entry) => el("tr", {}, el("td", {}, entry.selected ? "yes" : "no"), el("td", {}, entry.verdict), el("td", { class: "text" }, entry.why), el("td", {}, entry.routing_key), el("td", { class: "key" }, entry.key)))
        : [emptyRow(5, "The plan is empty.")]),
    );
    byId("plan-command").textContent = `craig-mq quarantine redrive --plan ${plan.file} --yes ${plan.selected} --reason '…'`;
    byId("yes").value = "";
  }

  async #redrive() {
    const { api, byId } = window.craigConsole;
    const returned = byId("returned").value;
    this.showRun(
      await api.post("redrive", {
        plan: this.#plan.sha256,
        yes: Number(byId("yes").value),
        reason: byId("reason").value,
        pace: byId("pace").value,
        stop_if_returned: returned === "" ? null : Number(returned),
      }),
    );
    byId("stop").focus();
  }

  allow(allowed) {
    const { byId } = window.craigConsole;
    byId("read-only").hidden = allowed;
    byId("redrive-form").hidden = !allowed;
  }

  showRun(run) {
    const { byId, disable, announce } = window.craigConsole;
    byId("run").hidden = !run;
    if (!run) return;
    const done = run.total - run.left;
    const words = run.failure
      ? "It ended: " + run.failure
      : run.running
        ? `${run.stopping ? "Stopping; " : ""}${done} of ${run.total}${run.seconds_left === null ? "" : `, ${run.seconds_left} s to go`}`
        : run.account.stopped
          ? `Stopped: ${run.account.stopped}. The same plan goes on where it stopped.`
          : "It went through.";
    byId("progress").max = Math.max(1, run.total);
    byId("progress").value = done;
    byId("run-words").textContent = words;
    byId("run-account").textContent = run.sentence;
    disable("stop", !run.running || run.stopping);
    const tenth = run.running ? `${Math.floor((10 * done) / Math.max(1, run.total)) * 10} percent of the redrive` : `${words} ${run.sentence}`;
    if (tenth !== this.#told) announce(tenth);
    this.#told = tenth;
    const ended = this.running && !run.running;
    this.running = run.running;
    if (ended) this.onEnded();
  }
};
