// One message: its fields, its effects, what would happen to it; its body only when asked for.
"use strict";

window.craigConsole.Message = class {
  #key = null;

  constructor() {
    const { byId, attempt } = window.craigConsole;
    byId("reveal").addEventListener("click", () => attempt(() => this.#reveal()));
    byId("message").addEventListener("close", () => this.#forget());
  }

  async open(key) {
    const { api, byId, el, pairs, verdict } = window.craigConsole;
    const row = await api.post("message", { key });
    this.#key = key;
    byId("message-verdict").replaceChildren(verdict(row), ": " + row.why + ".");
    byId("message-fields").replaceChildren(...pairs(Object.entries(row.fields).map(([name, value]) => [name.replaceAll("_", " "), value === null ? null : String(value)])));
    const lines = row.effects.rows.map((effect) => `${effect.recorded_at}: ${effect.event_type} from ${effect.service}${effect.archived ? ", archived" : ""}${effect.divergent ? ", divergent" : ""}`);
    byId("message-effects").replaceChildren(...(lines.length ? lines : [row.effect]).map((line) => el("li", {}, line)));
    byId("experiment").href = "review/" + (row.experiment ? "?" + row.experiment : "");
    byId("experiment-scale").textContent = `Opens the review with its own numbers; ${row.scale}.`;
    byId("message").showModal();
  }

  async #reveal() {
    const { api, byId } = window.craigConsole;
    const key = this.#key;
    let found;
    try {
      found = await api.post("body", { key });
    } catch (error) {
      byId("message").close();
      throw error;
    }
    if (key !== this.#key) return;
    byId("body-box").hidden = false;
    byId("body-note").textContent = found.cut ? `The first 64 KiB of ${found.bytes} bytes.` : `${found.bytes} bytes.`;
    byId("body").textContent = found.text;
    byId("body").focus();
  }

  #forget() {
    const { byId } = window.craigConsole;
    const key = this.#key;
    this.#key = null;
    byId("body-box").hidden = true;
    byId("body").textContent = "";
    document.querySelector(`#rows [data-open="${CSS.escape(key || "")}"]`)?.focus();
  }
};
