// The way to the server: one session, JSON both ways, every failure one sentence.
"use strict";
window.craigConsole = window.craigConsole || {};

window.craigConsole.api = (() => {
  async function ask(path, options) {
    let answer;
    try {
      answer = await fetch("api/" + path, { credentials: "same-origin", ...options });
    } catch {
      throw new Error("The console does not answer: is its process still there?");
    }
    const found = await answer.json().catch(() => ({ error: "The console answered " + answer.status + "." }));
    if (!answer.ok) throw new Error(found.error);
    return found;
  }

  const get = (path) => ask(path);
  const post = (path, body) =>
    ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body || {}) });

  // Exchange the token of the printed address for a cookie, and take it out of the address at once.
  async function open() {
    const token = new URLSearchParams(location.hash.slice(1)).get("t");
    if (!token) return;
    history.replaceState(null, "", location.pathname + location.search);
    await post("session", { token });
  }

  return { get, post, open };
})();
