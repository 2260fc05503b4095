// The tab Point: points of one image, and where they are in one or two others.

import { download, h, number } from "./dom.js";
import { act, board, known, state, watch } from "./state.js";
import { deleteCell, nameCell, selectCell } from "./rows.js";
import { fileButton, stage, takesFiles } from "./stage.js";

const options = { heat: true, second: false };

export function words(point, answer, name) {
  const score = answer.score.toFixed(2);
  return answer.visible
    ? `${point.name}: in ${name} at ${number(answer.x)}, ${number(answer.y)}, similarity ${score}`
    : `${point.name}: not visible in ${name}, best similarity ${score}`;
}

export function sourceMarks() {
  return state.points.map((point) => ({
    ...point,
    selected: point.number === state.selected,
    words: `${point.number} ${point.name}: at ${number(point.x)}, ${number(point.y)}`,
  }));
}

export function targetMarks(answers, name) {
  return state.points.flatMap((point, row) => {
    const answer = answers[row];
    if (!answer?.visible) return [];
    return [{ ...point, ...answer, selected: point.number === state.selected, words: words(point, answer, name) }];
  });
}

function twinMarks(column, name) {
  return state.points.flatMap((point) => {
    const twin = point.twins[column];
    if (!twin?.visible) return [];
    const text = `the other side of ${point.name}: in ${name} at ${number(twin.x)}, ${number(twin.y)}`;
    return [{ ...point, ...twin, kind: "twin", words: text }];
  });
}

export function verdict(point, answer) {
  if (!point || !answer) return "";
  const score = answer.score.toFixed(2);
  return answer.visible ? `${point.name}: found, similarity ${score}` : `${point.name}: not visible here (best ${score})`;
}

function panel(slot, title) {
  const choice = h("select", { "aria-label": title, onchange: () => act("place", { slot, image: choice.value }) });
  const interactive = slot === 0;
  const view = stage({ editor: interactive ? board : null, label: () => title });
  const empty = h("div", { class: "empty" }, "Drop or paste an image here, or ", fileButton("choose a file", slot));
  const line = h("p", { class: "verdict", "data-slot": String(slot) });
  const head = h("figcaption", {}, h("span", {}, title), choice);
  const element = h("figure", { class: "panel", "data-slot": String(slot) }, head, view.element, empty, line);
  takesFiles(element, slot);

  function update() {
    const identity = slot ? state.targets[slot - 1] : state.source;
    element.hidden = slot === 2 && !options.second && !identity;
    choice.replaceChildren(
      h("option", { value: "" }, state.images.length ? "(choose)" : "(no images yet)"),
      ...state.images.map((entry) => h("option", { value: entry.id }, entry.name)),
    );
    choice.value = identity;
    empty.hidden = Boolean(identity);
    view.show(identity);
    if (interactive) {
      view.mark(identity, sourceMarks());
      line.textContent = identity && !state.points.length ? "Click a part of the animal, such as an eye." : "";
      return;
    }
    const column = slot - 1;
    const name = known(identity)?.name ?? "";
    const point = state.points.find((other) => other.number === state.selected);
    const answer = point?.answers[column];
    view.over(options.heat ? state.heat[column] : "", `Similarity of every place of ${name} to ${point?.name}`);
    const twins = state.twins ? twinMarks(column, name) : [];
    view.mark(identity, [...twins, ...targetMarks(state.points.map((other) => other.answers[column]), name)]);
    line.textContent = identity ? verdict(point, answer) : "";
    line.classList.toggle("hidden-point", Boolean(answer) && !answer.visible);
  }

  return { element, update };
}

function row(point) {
  const found = state.targets.flatMap((identity, column) => {
    const answer = point.answers[column];
    if (!identity || !answer) return [];
    const text = answer.visible ? `${number(answer.x)}, ${number(answer.y)} (${answer.score.toFixed(2)})` : "not visible here";
    return [h("td", { class: answer.visible ? "" : "hidden-point" }, text)];
  });
  const chosen = point.number === state.selected;
  return h(
    "tr",
    { class: chosen ? "selected" : "" },
    selectCell(point, chosen, () => act("select", { number: point.number })),
    nameCell(point, (name) => act("rename", { number: point.number, name }), () => act("state")),
    h("td", {}, `${number(point.x)}, ${number(point.y)}`),
    ...found,
    deleteCell(`delete ${point.name}`, "Delete", () => act("delete", { number: point.number })),
  );
}

function table(body, head) {
  const typing = body.contains(document.activeElement) && document.activeElement.dataset.number;
  const names = state.targets.filter(Boolean).map((identity) => h("th", {}, `in ${known(identity)?.name}`));
  head.replaceChildren(h("tr", {}, h("th", {}, ""), h("th", {}, "name"), h("th", {}, "x, y"), ...names, h("th", {}, "")));
  body.replaceChildren(...state.points.map(row));
  if (typing) body.querySelector(`input[data-number="${typing}"]`)?.focus();
}

function toggle(text, title, initial, onchange) {
  const box = h("input", { type: "checkbox", onchange: () => onchange(box.checked) });
  box.checked = initial;
  return { element: h("label", { class: "toggle", title }, box, text), set: (on) => (box.checked = on) };
}

export function mount(element) {
  const panels = [panel(0, "Source"), panel(1, "Target"), panel(2, "Second target")];
  const undo = h("button", { onclick: () => act("undo") }, "Undo");
  const swap = h("button", { onclick: () => act("swap"), title: "Source and target change places" }, "Swap");
  const clear = h("button", { onclick: () => act("clear") }, "Clear points");
  const redraw = () => panels.forEach((one) => one.update());
  const heat = toggle("similarity map", "Where the target looks like the selected point", options.heat, (on) => {
    options.heat = on;
    redraw();
  });
  const other = toggle("other side ◇", "Where the twin is: the left eye for a right one", state.twins, (on) =>
    act("twins", { on }),
  );
  const second = toggle("second target", "A third image", options.second, (on) => {
    options.second = on;
    if (!on && state.targets[1]) act("place", { slot: 2, image: "" });
    else redraw();
  });
  const tools = h(
    "div",
    { class: "tools", role: "toolbar", "aria-label": "Points" },
    undo,
    swap,
    clear,
    heat.element,
    other.element,
    second.element,
  );
  const saves = ["csv", "coco", "png"].map((kind) =>
    h("button", { onclick: () => download(kind), "data-download": kind }, `Save ${kind.toUpperCase()}`),
  );
  const head = h("thead");
  const body = h("tbody");
  const list = h("table", { class: "points" }, h("caption", { class: "unseen" }, "Points"), head, body);
  const live = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  element.replaceChildren(
    tools,
    h("div", { class: "panels" }, ...panels.map((one) => one.element)),
    h("div", { class: "scroll" }, list),
    h("div", { class: "tools" }, ...saves),
    live,
  );
  watch(() => {
    redraw();
    table(body, head);
    other.set(Boolean(state.twins));
    options.second ||= Boolean(state.targets[1]);
    second.set(options.second);
    undo.disabled = !state.undo;
    swap.disabled = !(state.source && state.targets[0]);
    clear.disabled = !state.points.length;
    list.hidden = !state.points.length;
    saves.forEach((button) => (button.disabled = !state.points.length));
    const point = state.points.find((other) => other.number === state.selected);
    const said = state.targets.flatMap((identity, column) =>
      identity && point?.answers[column] ? [words(point, point.answers[column], known(identity)?.name ?? "")] : [],
    );
    live.textContent = said.join("; ");
  });
}
