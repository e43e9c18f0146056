// The reading: filters (kept in the address), groups, pages of messages, and which of them are ticked.
"use strict";

window.craigConsole.Quarantine = class {
  static PAGE = 50;

  constructor({ onOpen, onState, onRead }) {
    const query = new URLSearchParams(location.search);
    this.where = query.getAll("where");
    this.group = query.get("group");
    this.offset = 0;
    this.selected = 0;
    this.current = null;
    this.ticked = new Set();
    this.onOpen = onOpen;
    this.onState = onState;
    this.onRead = onRead;
    this.number = null; // of the reading that is shown
    this.#install();
    this.#showConditions();
    this.#clear("Nothing was read yet.");
  }

  // What the filters leave, as the server understands it.
  get selection() {
    return { where: this.where, group: this.group };
  }

  async read() {
    const { byId, api, announce } = window.craigConsole;
    byId("lease").textContent = "Reading …";
    const state = await api.post("read");
    this.onState(state);
    this.ticked.clear();
    this.offset = 0;
    await this.load(state.reading);
    await this.onRead();
    announce(`${state.reading.seen} messages read.`);
  }

  async handBack() {
    const { api, announce } = window.craigConsole;
    this.onState(await api.post("hand-back"));
    announce("Everything was handed back.");
  }

  // Show the rows of a reading (or of another page or filter of the one shown).
  async load(reading) {
    const { api, byId, messageRow, groupRow, emptyRow, disable } = window.craigConsole;
    if (reading) this.number = reading.number;
    if (this.number === null) return;
    const found = await api.post("rows", { ...this.selection, offset: this.offset, count: this.constructor.PAGE });
    this.selected = found.selected;
    const keys = found.rows.map((row) => row.key);
    if (!keys.includes(this.current)) this.current = null;
    const focused = byId("rows").contains(document.activeElement);
    byId("rows").replaceChildren(...(found.rows.length ? found.rows.map((row) => messageRow(row, { ticked: this.ticked.has(row.key), current: row.key === this.current })) : [emptyRow(9, "No message is selected.")]));
    byId("groups").replaceChildren(...(found.groups.length ? found.groups.map((group) => groupRow(group, this.group)) : [emptyRow(5, "No group.")]));
    if (focused) (this.current ? document.querySelector(`#rows [data-open="${CSS.escape(this.current)}"]`) : byId("read")).focus();
    byId("rows-count").textContent = found.rows.length ? `${this.offset + 1} to ${this.offset + found.rows.length} of ${found.selected}` : "";
    disable("earlier", this.offset === 0);
    disable("later", this.offset + found.rows.length >= found.selected);
    this.#showFacets(found.facets);
    this.#showCounts();
  }

  move(step) {
    const rows = [...document.querySelectorAll("#rows tr[data-key]")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.dataset.key === this.current);
    const next = rows[Math.min(rows.length - 1, Math.max(0, at === -1 ? 0 : at + step))];
    for (const row of rows) row.classList.toggle("current", row === next);
    this.current = next.dataset.key;
    next.querySelector("[data-open]").focus();
  }

  tick() {
    const box = this.current && document.querySelector(`#rows [data-tick="${CSS.escape(this.current)}"]`);
    if (box) box.click();
  }

  #install() {
    const { byId, press, attempt } = window.craigConsole;
    press("read", () => this.read());
    press("hand-back", () => this.handBack());
    press("earlier", () => this.#turn(-this.constructor.PAGE));
    press("later", () => this.#turn(this.constructor.PAGE));
    byId("filter").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = byId("condition").value.trim();
      if (text) attempt(() => this.#filter([...this.where, text], this.group)).then(() => { byId("condition").value = ""; });
    });
    byId("facets").addEventListener("change", (event) => {
      const { name, value } = event.target;
      if (value) attempt(() => this.#filter([...this.where, `${name}=${value}`], this.group));
    });
    byId("conditions").addEventListener("click", (event) => {
      const at = event.target.closest("[data-at]");
      if (!at) return;
      const where = this.where.filter((_, index) => index !== Number(at.dataset.at));
      attempt(() => this.#filter(at.dataset.at === "group" ? this.where : where, at.dataset.at === "group" ? null : this.group));
      byId("condition").focus();
    });
    byId("groups").addEventListener("click", (event) => {
      const group = event.target.closest("[data-group]")?.dataset.group;
      if (!group) return;
      attempt(() => this.#filter(this.where, group === this.group ? null : group)).then(() => document.querySelector(`[data-group="${CSS.escape(group)}"]`)?.focus());
    });
    byId("rows").addEventListener("change", (event) => {
      const key = event.target.dataset.tick;
      if (event.target.checked) this.ticked.add(key);
      else this.ticked.delete(key);
      this.#showCounts();
    });
    byId("rows").addEventListener("click", (event) => {
      const key = event.target.closest("[data-open]")?.dataset.open;
      if (key) this.onOpen(key);
    });
  }

  async #turn(by) {
    this.offset = Math.max(0, this.offset + by);
    await this.load();
  }

  // Try other filters; a condition that is refused changes nothing.
  async #filter(where, group) {
    const before = [this.where, this.group, this.offset];
    [this.where, this.group, this.offset] = [where, group, 0];
    try {
      await this.load();
    } catch (error) {
      [this.where, this.group, this.offset] = before;
      throw error;
    }
    this.#showConditions();
    const query = new URLSearchParams([...where.map((one) => ["where", one]), ...(group ? [["group", group]] : [])]).toString();
    history.replaceState(null, "", location.pathname + (query ? "?" + query : ""));
    window.craigConsole.announce(`${this.selected} messages selected.`);
  }

  #showConditions() {
    const { byId, el } = window.craigConsole;
    const chip = (words, at) => el("li", {}, el("button", { type: "button", class: "quiet", "data-at": at, "aria-label": "Remove the filter " + words }, words + " ×"));
    byId("conditions").replaceChildren(...this.where.map((one, index) => chip(one, String(index))), ...(this.group ? [chip("one group", "group")] : []));
  }

  #showFacets(facets) {
    const { byId, el } = window.craigConsole;
    if (byId("facets").contains(document.activeElement)) return; // never take a list away from under its user
    const chosen = Object.entries(facets).map(([name, counts]) =>
      el("label", {}, "Only " + name.replaceAll("_", " "), el("select", { name }, el("option", { value: "" }, "all"),
        ...counts.map(([value, count]) => el("option", { value: value === "-" ? "none" : value }, `${value} (${count})`)))));
    byId("facets").replaceChildren(...chosen);
  }

  #showCounts() {
    const { byId } = window.craigConsole;
    byId("scope-filtered").textContent = String(this.selected);
    byId("scope-ticked").textContent = String(this.ticked.size);
  }

  #clear(words) {
    const { byId, emptyRow } = window.craigConsole;
    byId("rows").replaceChildren(emptyRow(9, words));
    byId("groups").replaceChildren(emptyRow(5, words));
  }
};
