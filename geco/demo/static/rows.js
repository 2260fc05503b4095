// Pieces of a table of points that several tabs have: the number that selects, the name, the cross that deletes.
import { h } from "./dom.js";

export function selectCell(point, chosen, select) {
  const properties = {
    class: "number",
    style: { "--colour": point.colour },
    "aria-label": `select point ${point.number}`,
    "aria-pressed": String(chosen),
    onclick: select,
  };
  return h("td", {}, h("button", properties, String(point.number)));
}

// `rename` is asked with the new name and says whether it was taken; if not, `refuse` shows what is true.
export function nameCell(point, rename, refuse) {
  const field = h("input", {
    type: "text",
    maxLength: 40,
    "aria-label": `name of point ${point.number}`,
    "data-number": String(point.number),
    onchange: async () => {
      if (!(await rename(field.value))) refuse();
    },
  });
  field.value = point.name;
  return h("td", {}, field);
}

export function deleteCell(label, title, remove) {
  return h("td", {}, h("button", { "aria-label": label, title, onclick: remove }, "✕"));
}
