// The audit ledger beside quarantine: the newest committed effects, and what operators did.
"use strict";

window.craigConsole.Ledger = class {
  async load() {
    const { api } = window.craigConsole;
    this.#showEffects(await api.get("effects"));
    this.#showHistory(await api.get("history"));
  }

  #showEffects(found) {
    const { byId, el, emptyRow } = window.craigConsole;
    byId("effects-note").textContent = found.asked ? "The newest rows of the audit ledger. One that lies in quarantine, too, is a repeat to be absorbed." : "No ledger is named: start the console with --audit URL to see what was committed.";
    byId("effects").replaceChildren(
      ...(found.rows.length
        ? found.rows.map((row) => el("tr", {}, el("td", {}, row.recorded_at.slice(5, 16).replace("T", " ")), el("td", { class: "text" }, row.event_type, el("span", { class: "sub" }, row.service)), el("td", { class: "text" }, row.in_quarantine ? "yes" : "no")))
        : [emptyRow(3, "No effect is known.")]),
    );
  }

  #showHistory(found) {
    const { byId, el, emptyRow } = window.craigConsole;
    byId("history-note").textContent = "Acts of " + found.of + ".";
    byId("history").replaceChildren(
      ...(found.acts.length
        ? found.acts.map((act) => el("tr", {}, el("td", {}, act.at.slice(0, 19).replace("T", " ")), el("td", {}, act.who), el("td", {}, act.action), el("td", {}, act.reason), el("td", {}, act.outcome), el("td", { class: "key" }, act.plan ? act.plan.slice(0, 12) : null)))
        : [emptyRow(6, "Nothing was done yet.")]),
    );
  }
};
