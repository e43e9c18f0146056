// The panels: the same snapshot as the diagram, as tables and sentences.
"use strict";

(() => {
  const RECENT = 7;
  const byId = (id) => document.getElementById(id);

  function cell(content, kind = "td", classes = "") {
    const element = document.createElement(kind);
    if (kind === "th") element.scope = "row";
    if (classes) element.className = classes;
    element.textContent = content;
    return element;
  }

  function row(cells, classes = "") {
    const element = document.createElement("tr");
    if (classes) element.className = classes;
    element.append(...cells);
    return element;
  }

  function messageRow(message, moved) {
    const numbers = [message.cycle, message.cycle_receives, message.total_receives, message.effects, message.dedup_hits];
    const cells = [
      cell(message.name, "th"),
      cell(message.status, "td", `is-${message.status}`),
      cell(message.reason || "–"),
      cell(message.key, "td", "key"),
      ...numbers.map((number) => cell(number, "td", "n")),
    ];
    return row(cells, message.name === moved ? "moved" : "");
  }

  function storeRow(entry) {
    const now = entry.valid ? "valid" : "expired";
    return row([cell(entry.key, "th", "key"), cell(`${entry.committed_at} s`), cell(`${entry.expires_at} s`), cell(now, "td", now)]);
  }

  function ledgerRow(entry) {
    return row([cell(entry.n, "th"), cell(`${entry.at} s`), cell(entry.intent), cell(entry.key, "td", "key"), cell(`+${entry.delta}`)]);
  }

  function emptyRow(columns, text) {
    const only = cell(text, "td", "empty");
    only.colSpan = columns;
    return row([only]);
  }

  function transitionItem(number, event, text, current) {
    const item = document.createElement("li");
    item.value = number;
    if (number === current) item.setAttribute("aria-current", "step");
    const time = document.createElement("span");
    time.className = "at";
    time.textContent = `${event.at} s`;
    item.append(time, " ", text);
    return item;
  }

  // Show snapshot `index` of a view everywhere but in the diagram.
  window.craigReview.showPanels = (view, index, moved) => {
    const { run, captions, transitions } = view;
    const snapshot = run.snapshots[index];
    byId("caption").textContent = captions[index];
    byId("clock").textContent = `${snapshot.at} s`;
    byId("repaired").hidden = !snapshot.repaired;
    for (const phase of byId("phases").children) {
      if (phase.dataset.phase === snapshot.phase) phase.setAttribute("aria-current", "step");
      else phase.removeAttribute("aria-current");
    }
    byId("snapshot").replaceChildren(...snapshot.messages.map((message) => messageRow(message, moved)));
    byId("store").replaceChildren(...(snapshot.store.length ? snapshot.store.map(storeRow) : [emptyRow(4, "No result is stored.")]));
    const rows = run.ledger.slice(0, snapshot.effects_total);
    byId("ledger").replaceChildren(...(rows.length ? rows.map(ledgerRow) : [emptyRow(5, "No effect yet.")]));
    byId("counter").textContent = snapshot.effects_total;
    const first = Math.max(0, index - RECENT);
    const items = transitions.slice(first, index).map((text, i) => transitionItem(first + i + 1, run.events[first + i], text, index));
    const start = transitionItem(0, { at: 0 }, "all four messages are ready", index);
    byId("recent").replaceChildren(...(first === 0 ? [start, ...items] : items));
  };
})();
