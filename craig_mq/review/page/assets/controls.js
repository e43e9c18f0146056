// The parameter form and its address: texts in, texts out. What a value means is decided where runs come from.
"use strict";

window.craigReview.Controls = class {
  constructor(form, setup, changed) {
    this.form = form;
    this.controls = setup.parameters;
    form.addEventListener("change", () => changed());
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  // The form's texts as a query, defaults left out.
  query() {
    const query = new URLSearchParams();
    for (const control of this.controls) {
      const text = this.#text(control);
      if (text !== control.texts[control.listed.indexOf(control.default)]) query.set(control.key, text);
    }
    return query;
  }

  // What stands in the form now, by parameter.
  texts() {
    return new Map(this.controls.map((control) => [control.name, this.#text(control)]));
  }

  // Put a run's parameters into the form. A field that no longer holds its text of `asked`, the texts the run
  // was asked for with, is being edited: an answer that comes late must not overwrite what is typed.
  fill(parameters, asked) {
    for (const control of this.controls) {
      if (asked && asked.get(control.name) !== this.#text(control)) continue;
      const field = this.form.elements[control.name];
      const value = parameters[control.name];
      if (field.type === "checkbox") field.checked = value;
      else field.value = String(value);
    }
  }

  // Mark the field an error names; no name clears every mark.
  mark(name) {
    for (const control of this.controls) {
      for (const field of this.form.querySelectorAll(`[name="${control.name}"]`)) {
        field.toggleAttribute("aria-invalid", false);
        if (control.name !== name) field.removeAttribute("aria-describedby");
        else {
          field.setAttribute("aria-invalid", "true");
          field.setAttribute("aria-describedby", "problem");
        }
      }
    }
  }

  #text(control) {
    const field = this.form.elements[control.name];
    if (field.type === "checkbox") return field.checked ? control.texts[0] : control.texts[1];
    return field.value;
  }
};
