// How groups and messages look as table rows; what they mean was decided in Python.
"use strict";

Object.assign(window.craigConsole, (() => {
  const { el, age } = window.craigConsole;

  function verdict(row) {
    return el("span", { class: "verdict verdict-" + row.verdict.replaceAll(" ", "-"), title: row.why }, row.verdict);
  }

  function messageRow(row, { ticked, current }) {
    const name = `${row.event_type || "message"} at position ${row.position + 1}`;
    return el(
      "tr",
      { "data-key": row.key, class: current ? "current" : null },
      el("td", {}, el("input", { type: "checkbox", "data-tick": row.key, "aria-label": "Tick " + name, checked: ticked })),
      el("td", {}, el("button", { type: "button", "data-open": row.key, "aria-label": "Open " + name, "aria-haspopup": "dialog" }, "Open")),
      el("td", {}, age(row.age_s)),
      el("td", { class: "text" }, verdict(row), el("span", { class: "sub" }, row.effect)),
      el("td", { class: "text error" }, row.error),
      el("td", { class: "wide" }, row.reason),
      el("td", { class: "wide text" }, row.event_type, el("span", { class: "sub" }, row.service)),
      el("td", { class: "wide" }, `${row.attempts}, ${row.park_count} of ${row.total_parks}`),
      el("td", { class: "wide" }, row.token ? "yes" : "no"),
    );
  }

  function groupRow(group, chosen) {
    const pressed = group.name === chosen;
    return el(
      "tr",
      {},
      el("td", { class: "n" }, String(group.rows)),
      el("td", {}, group.reason),
      el("td", { class: "text" }, group.error),
      el("td", { class: "wide" }, group.oldest_at ? group.oldest_at.slice(0, 16).replace("T", " ") : null),
      el("td", {}, el("button", { type: "button", "data-group": group.name, "aria-pressed": String(pressed), "aria-label": `Only ${group.reason}: ${group.error}` }, pressed ? "Chosen" : "Only")),
    );
  }

  return { verdict, messageRow, groupRow };
})());
