// Evidence to keep: export, baseline and its comparison, notes, and the link to this snapshot.
"use strict";

(() => {
  const BASELINE = "craig-mq.review.baseline/1";
  const NOTES = "craig-mq.review.notes/1";
  const byId = (id) => document.getElementById(id);

  function recall(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // storage is switched off: the page works without it
    }
  }

  function keep(key, text) {
    try {
      if (text === null) localStorage.removeItem(key);
      else localStorage.setItem(key, text);
    } catch {
      byId("evidence-note").textContent = "This browser keeps nothing here.";
    }
  }

  function recallBaseline() {
    try {
      const kept = JSON.parse(recall(BASELINE));
      const whole = kept && typeof kept.caption === "string" && Number.isInteger(kept.index) && typeof kept.parameters === "object";
      return whole && kept.parameters !== null ? kept : null;
    } catch {
      return null;
    }
  }

  function save(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  function sorted(value) {
    if (Array.isArray(value)) return value.map(sorted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
  }

  function comparedRow(label, before, now) {
    const row = document.createElement("tr");
    const texts = [label, before, now, before === now ? "" : "differs"];
    row.className = before === now ? "" : "differs";
    texts.forEach((text, i) => {
      const cell = document.createElement(i === 0 ? "th" : "td");
      if (i === 0) cell.scope = "row";
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  }

  window.craigReview.Evidence = class {
    constructor(now, labels) {
      this.now = now; // () => {view, index, link}, or null while no run is shown
      this.labels = labels;
      this.baseline = recallBaseline();
      byId("notes").value = recall(NOTES) || "";
      byId("notes").addEventListener("input", (event) => keep(NOTES, event.target.value));
      byId("export").addEventListener("click", () => this.#export());
      byId("export-notes").addEventListener("click", () => this.#exportNotes());
      byId("capture").addEventListener("click", () => this.#capture());
      byId("clear").addEventListener("click", () => this.#clear());
      byId("copy").addEventListener("click", () => this.#copy());
    }

    show() {
      const now = this.now();
      byId("share").value = now ? now.link : "";
      byId("capture").textContent = this.baseline ? "Replace baseline" : "Capture baseline";
      byId("clear").hidden = !this.baseline;
      byId("comparison").hidden = !this.baseline || !now;
      if (!this.baseline || !now) return;
      const { parameters } = now.view.run;
      const rows = this.labels.map(([name, label]) => comparedRow(label, String(this.baseline.parameters[name]), String(parameters[name])));
      const before = this.baseline.caption.split(/: |; /);
      const after = now.view.captions[now.index].split(/: |; /);
      const clauses = ["Step", "Messages", "Effects", "Hits"].map((label, i) => comparedRow(label, before[i] || "", after[i] || ""));
      byId("compared").replaceChildren(...clauses, ...rows);
    }

    #capture() {
      const now = this.now();
      if (!now) return;
      this.baseline = { caption: now.view.captions[now.index], parameters: now.view.run.parameters, index: now.index };
      keep(BASELINE, JSON.stringify(this.baseline));
      byId("evidence-note").textContent = "Baseline kept: " + this.baseline.caption;
      this.show();
    }

    #clear() {
      this.baseline = null;
      keep(BASELINE, null);
      byId("evidence-note").textContent = "Baseline cleared.";
      this.show();
      byId("capture").focus();
    }

    // The whole run: the same bytes as the command line's export of these parameters.
    #export() {
      const now = this.now();
      if (now) save("craig-mq-review.json", "application/json", JSON.stringify(sorted(now.view.run)) + "\n");
    }

    #exportNotes() {
      const now = this.now();
      const lines = ["# Dead-letter review: notes", ""];
      if (now) {
        const { parameters } = now.view.run;
        for (const [name, label] of this.labels) lines.push(`- ${label}: ${parameters[name]}`);
        lines.push("", now.view.captions[now.index], "", now.link, "");
      }
      save("craig-mq-review-notes.md", "text/markdown", lines.concat(byId("notes").value, "").join("\n"));
    }

    async #copy() {
      const field = byId("share");
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
        byId("evidence-note").textContent = "Link copied.";
      } catch {
        byId("evidence-note").textContent = "The link is selected; copy it with your keyboard.";
      }
    }
  };
})();
