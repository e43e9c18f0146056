// Small pieces of page: everything from the server becomes text, never markup.
"use strict";

Object.assign(window.craigConsole, (() => {
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  function make(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.map((child) => (child === null || child === undefined ? "-" : child)));
    return node;
  }

  const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

  // A disabled button keeps the focus, unlike one with `disabled`.
  const disable = (id, disabled) => byId(id).setAttribute("aria-disabled", String(disabled));
  const disabled = (node) => node.getAttribute("aria-disabled") === "true";

  function announce(text) {
    if (byId("announcer").textContent !== text) byId("announcer").textContent = text;
  }

  function problem(error) {
    byId("problem").textContent = error ? error.message : "";
    byId("problem").hidden = !error;
  }

  // Run what a control asks for; a failure is shown, and the next success takes it away.
  async function attempt(act) {
    try {
      await act();
      problem(null);
    } catch (error) {
      problem(error);
    }
  }

  function press(id, act) {
    byId(id).addEventListener("click", () => {
      if (!disabled(byId(id))) attempt(act);
    });
  }

  function age(seconds) {
    if (seconds === null || seconds === undefined) return "-";
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= size) return Math.floor(seconds / size) + " " + unit;
    }
    return Math.floor(seconds) + " s";
  }

  const emptyRow = (columns, words) => el("tr", {}, el("td", { colspan: columns, class: "empty" }, words));
  const pairs = (entries) => entries.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);

  return { byId, el, svg, disable, disabled, announce, attempt, press, age, emptyRow, pairs };
})());
