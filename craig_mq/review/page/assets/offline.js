// Where runs come from in the offline file: a packed table of every listed combination, read back node by node.
"use strict";
window.craigReview = window.craigReview || {};

(() => {
  const setup = () => JSON.parse(document.getElementById("setup").textContent);
  let unpacked = null;

  async function unpack() {
    const text = document.getElementById("grid").textContent.trim();
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // Read one value back: [0, items...] is a list, [1, keys, values...] an object, anything else itself.
  function read(nodes, number, fill) {
    const node = nodes[number];
    if (!Array.isArray(node)) return typeof node === "string" ? fill(node) : node;
    if (node[0] === 0) return node.slice(1).map((item) => read(nodes, item, fill));
    const keys = read(nodes, node[1], fill);
    return Object.fromEntries(keys.map((key, i) => [key, read(nodes, node[i + 2], fill)]));
  }

  // A mark holds the coefficients of three times; alone it stands for a number, inside a sentence for its digits.
  function filler(times) {
    const mark = /⟨(-?\d+),(-?\d+),(-?\d+)⟩/g;
    const seconds = (all, ...parts) => times.reduce((sum, time, i) => sum + Number(parts[i]) * time, 0);
    return (text) => {
      const filled = text.replace(mark, seconds);
      return text.startsWith("⟨") && text.endsWith("⟩") ? Number(filled) : filled;
    };
  }

  function refusal(field, message) {
    return { error: { field, message } };
  }

  async function load(query) {
    const given = new URLSearchParams(query);
    const values = {};
    let combination = 0;
    for (const control of setup().parameters) {
      const text = given.has(control.key) ? given.get(control.key) : control.texts[control.listed.indexOf(control.default)];
      const choice = control.texts.indexOf(text);
      if (choice < 0) return refusal(control.name, `${control.name} must be one of the listed ${control.texts.join(", ")}, not '${text}'`);
      values[control.name] = control.listed[choice];
      combination = combination * control.listed.length + choice;
    }
    unpacked = unpacked || unpack();
    const { nodes, roots, runs } = await unpacked;
    const fill = filler([values.retry_interval, values.operator_wait, values.result_retention]);
    const view = read(nodes, roots[runs[combination]], fill);
    view.run.parameters = values;
    const last = view.transitions.length;
    const step = given.has("i") ? given.get("i") : "0";
    if (!/^[0-9]{1,4}$/.test(step) || Number(step) > last) return refusal("i", `i must be a step from 0 to ${last}, not '${step}'`);
    return { ...view, step: Number(step) };
  }

  window.craigReview.source = {
    address: () => location.hash,
    writeAddress: (query) => "#" + query,
    load,
  };
})();
