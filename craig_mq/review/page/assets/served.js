// Where runs come from when the page is served: one request per parameter change.
"use strict";
window.craigReview = window.craigReview || {};

window.craigReview.source = {
  address: () => location.search,
  writeAddress: (query) => location.pathname + (query ? "?" + query : ""),

  // Resolves to the view of a run, or to {error: {field, message}}; rejects when the server can't be reached.
  async load(query) {
    const answer = await fetch("api/run?" + query, { headers: { Accept: "application/json" } });
    if (answer.status !== 200 && answer.status !== 422) throw new Error("the server answered " + answer.status);
    return answer.json();
  },
};
