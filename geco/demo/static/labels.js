// The tab Label many: click named points on a few images, let them be found on all others, review, correct, save.

import { download, h, look, number, post } from "./dom.js";
import { follower, known, state, whenSeen } from "./state.js";
import { deleteCell, nameCell, selectCell } from "./rows.js";
import { stage } from "./stage.js";

const sheet = { keypoints: [], selected: 0, undo: 0, run: null, images: [] };
const view = { image: "", drawn: () => {} }; // the one in the editor
const HINT =
  "Click to set the next point. Keys: Enter sets it in the middle, arrow keys move the selected one (with Shift further), " +
  "N selects the next, H marks it as not visible, Delete removes it here, Page Up and Page Down change the image, " +
  "Control+Z undoes.";

const labelsOf = (identity) => sheet.images.find((entry) => entry.id === identity) ?? { places: [], following: 0 };
const keypoint = (number) => sheet.keypoints.find((entry) => entry.number === number);
const placeOf = (identity, number) => labelsOf(identity).places.find((place) => place.number === number);

function take(answer) {
  if (answer) Object.assign(sheet, answer);
  view.drawn();
  return Boolean(answer);
}

const moves = follower(async (next, later) => {
  const answer = await post("label", { do: "move", ...next });
  const newer = later();
  const places = answer?.images.find((entry) => entry.id === newer?.image)?.places;
  const mine = places?.find((place) => place.number === newer.number);
  if (mine) Object.assign(mine, { x: newer.x, y: newer.y });
  take(answer);
});

async function change(what, values = {}) {
  await moves.settled();
  return take(await post("label", { do: what, ...values }));
}

const here = (what, values = {}) => change(what, { image: view.image, ...values });

// Points with a place; those that are not visible are rings where they are most likely.
function points(identity) {
  return labelsOf(identity).places.filter((place) => place.x !== null && keypoint(place.number));
}

const editor = {
  image: () => view.image,
  points: () => points(view.image),
  selected: () => sheet.selected,
  add: (x, y) => here("click", { x, y }),
  move(point, x, y) {
    Object.assign(point, { x, y });
    moves.go({ image: view.image, number: point.number, x, y, nudge: true });
  },
  select: (number) => change("select", { number }),
  remove: (number) => here("clear", { number }),
  undo: () => change("undo"),
};

function words(place) {
  const { name } = keypoint(place.number);
  const side = place.side_unsure ? ", left or right unsure" : "";
  const unsure = place.uncertainty ? `, ${percent(place.uncertainty)} uncertain` : "";
  return place.visible
    ? `${name}: at ${number(place.x)}, ${number(place.y)}${unsure}${side}`
    : `${name}: not visible here${unsure}`;
}

const percent = (share) => `${(100 * share).toFixed(0)} %`;

function marks(identity, named) {
  return points(identity).map((place) => ({
    ...place,
    kind: place.visible ? "point" : "point ring",
    colour: keypoint(place.number).colour,
    selected: named && place.number === sheet.selected,
    text: named ? keypoint(place.number).name : undefined,
    words: words(place),
  }));
}

function badges(identity) {
  const { is_label, corrected, places, expected_errors } = labelsOf(identity);
  const kinds = [];
  if (is_label) kinds.push(["label", "label"]);
  else if (corrected) kinds.push(["corrected", "corrected"]);
  else if (!places.length) kinds.push(["none", "not labelled yet"]);
  const sides = places.filter((place) => place.side_unsure).map((place) => keypoint(place.number)?.name);
  if (sides.length) kinds.push(["side", `left/right unsure: ${sides.join(", ")}`]);
  const hidden = places.filter((place) => !place.visible).length;
  if (hidden) kinds.push(["hidden", `${hidden} not visible`]);
  if (!is_label && places.length) kinds.push(["unsure", `${expected_errors.toFixed(1)} of ${places.length} may be wrong`]);
  return kinds.map(([kind, text]) => h("span", { class: `badge ${kind}`, "data-badge": kind }, text));
}

function tile(identity, open) {
  const picture = stage({ label: () => "Labels" });
  const title = h("button", { class: "plain", onclick: () => open(identity) });
  const line = h("p", { class: "badges" });
  const element = h("figure", { class: "panel", "data-image": identity }, h("figcaption", {}, title), picture.element, line);
  picture.element.addEventListener("click", () => open(identity));
  function update() {
    const name = known(identity)?.name ?? "";
    title.textContent = name;
    title.setAttribute("aria-label", `open ${name}`);
    title.setAttribute("aria-current", String(identity === view.image));
    element.classList.toggle("open", identity === view.image);
    picture.show(identity);
    picture.mark(identity, marks(identity, false));
    line.replaceChildren(...badges(identity));
  }
  return { element, update };
}

function row(entry) {
  const place = placeOf(view.image, entry.number);
  const chosen = entry.number === sheet.selected;
  const hidden = h("input", {
    type: "checkbox",
    onchange: () => here("show", { number: entry.number, visible: !hidden.checked }),
  });
  hidden.checked = Boolean(place && !place.visible);
  const where = !place ? "not set" : place.visible ? `${number(place.x)}, ${number(place.y)}` : "not visible here";
  return h(
    "tr",
    { class: chosen ? "selected" : "" },
    selectCell(entry, chosen, () => change("select", { number: entry.number })),
    nameCell(entry, (name) => change("rename", { number: entry.number, name }), () => change("state")),
    h("td", { class: place && !place.visible ? "hidden-point" : "" }, where),
    h("td", {}, h("label", { class: "toggle", title: `${entry.name} is not visible on this image` }, hidden, "not visible")),
    deleteCell(`delete ${entry.name} on all images`, "Delete on all images", () =>
      change("delete", { number: entry.number }),
    ),
  );
}

async function run() {
  if (!(await change("start"))) return;
  while (sheet.run) {
    if (await change("step")) continue;
    sheet.run = null; // the page says why; what was found so far stays
    view.drawn();
  }
  document.dispatchEvent(new CustomEvent("geco:labelled"));
}

function summary() {
  if (sheet.run) return `${sheet.run.done} of ${sheet.run.total} images`;
  const results = sheet.images.filter((entry) => !entry.is_label && entry.places.length);
  if (!results.length) return "";
  const wrong = results.reduce((sum, entry) => sum + entry.expected_errors, 0);
  const total = results.reduce((sum, entry) => sum + entry.places.length, 0);
  const count = results.length === 1 ? "1 image" : `${results.length} images, the most uncertain first`;
  return `Found on ${count}; ${wrong.toFixed(1)} of ${total} points may be wrong`;
}

export function mount(element) {
  const tiles = new Map();
  const canvas = stage({ editor, label: () => "Label" });
  canvas.element.setAttribute("aria-description", HINT);
  const choice = h("select", { "aria-label": "Image to label", onchange: () => open(choice.value) });
  const next = h("p", { class: "verdict", "data-labels": "next" });
  const use = h("input", { type: "checkbox", onchange: async () => (await here("use", { on: use.checked })) || change("state") });
  const start = h("button", { class: "main", onclick: run }, "Label the rest");
  const stop = h("button", { onclick: () => change("cancel") }, "Stop");
  const bar = h("progress", { "aria-label": "Images labelled" });
  const line = h("span", { class: "progress", role: "status", "aria-live": "polite", "data-labels": "summary" });
  const undo = h("button", { onclick: () => change("undo") }, "Undo");
  const add = h("button", { onclick: () => change("new"), title: "The next click sets a point that has no name yet" }, "New point");
  const clear = h("button", { onclick: () => here("clear"), title: "The next run labels it again" }, "Clear image");
  const turn = [-1, 1].map((by) =>
    h("button", { onclick: () => step(by), "aria-label": by < 0 ? "previous image" : "next image" }, by < 0 ? "←" : "→"),
  );
  const saves = ["csv", "coco"].map((kind) =>
    h("button", { onclick: () => download(`labels-${kind}`), "data-download": `labels-${kind}` }, `Save ${kind.toUpperCase()}`),
  );
  const body = h("tbody");
  const grid = h("div", { class: "panels small" });
  const empty = h("p", { class: "hint" }, "Upload images or a folder, or take an example first.");
  const table = h("table", { class: "points" }, h("caption", { class: "unseen" }, "Keypoints of this image"), body);
  const figure = h(
    "figure",
    { class: "panel editor" },
    h("figcaption", {}, turn[0], choice, turn[1]),
    canvas.element,
    next,
    h("div", { class: "tools" }, h("label", { class: "toggle" }, use, "use as label"), add, clear, undo),
    h("div", { class: "scroll" }, table),
  );
  const main = h("div", { class: "split" }, figure, grid);
  const tools = h("div", { class: "tools", role: "toolbar", "aria-label": "Labels" }, start, stop, ...saves, bar, line);
  element.replaceChildren(
    h(
      "p",
      { class: "hint" },
      "Click named points on one image or a few. Points of one name are the same keypoint; mark those that cannot be " +
        "seen as not visible. Then label the rest and review it: drag points that are wrong, and use a corrected image " +
        "as a label for another run. Dashed rings are not visible.",
    ),
    empty,
    tools,
    main,
  );

  function open(identity) {
    view.image = identity;
    draw();
    figure.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const all = sheet.images.map((entry) => entry.id);
    const at = all.indexOf(view.image);
    if (all.length) open(all[(at + by + all.length) % all.length]);
  }

  canvas.element.addEventListener("keydown", (event) => {
    const place = placeOf(view.image, sheet.selected);
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "PageDown") step(1);
    else if (event.key === "PageUp") step(-1);
    else if (event.key.toLowerCase() === "h" && sheet.selected) {
      here("show", { number: sheet.selected, visible: Boolean(place && !place.visible) });
    } else return;
    event.preventDefault();
  });

  function drawTable() {
    const typing = body.contains(document.activeElement) && document.activeElement.dataset.number;
    body.replaceChildren(...sheet.keypoints.map(row));
    if (typing) body.querySelector(`input[data-number="${typing}"]`)?.focus();
    table.hidden = !sheet.keypoints.length;
  }

  function drawTiles() {
    const order = sheet.images.map((entry) => entry.id);
    for (const identity of tiles.keys()) if (!order.includes(identity)) tiles.delete(identity);
    for (const identity of order) if (!tiles.has(identity)) tiles.set(identity, tile(identity, open));
    const elements = order.map((identity) => tiles.get(identity).element);
    if (elements.length !== grid.children.length || elements.some((one, i) => grid.children[i] !== one)) {
      grid.replaceChildren(...elements);
    }
    for (const one of tiles.values()) one.update();
  }

  function draw() {
    if (!known(view.image)) view.image = sheet.images[0]?.id ?? "";
    const labels = labelsOf(view.image);
    empty.hidden = Boolean(view.image);
    main.hidden = tools.hidden = !view.image;
    choice.replaceChildren(...sheet.images.map(({ id }) => h("option", { value: id }, known(id)?.name ?? "")));
    choice.value = view.image;
    canvas.show(view.image);
    canvas.mark(view.image, marks(view.image, true));
    next.textContent = `The next click sets ${keypoint(labels.following)?.name ?? "a new point"}.`;
    use.checked = Boolean(labels.is_label);
    use.disabled = clear.disabled = !labels.places.length;
    undo.disabled = !sheet.undo;
    start.disabled = Boolean(sheet.run) || !sheet.images.some((entry) => entry.is_label);
    stop.hidden = bar.hidden = !sheet.run;
    if (sheet.run) Object.assign(bar, { max: sheet.run.total, value: sheet.run.done });
    line.textContent = summary();
    saves.forEach((button) => (button.disabled = !sheet.images.some((entry) => entry.places.length)));
    drawTable();
    drawTiles();
  }

  view.drawn = draw;
  draw();
  const refresh = async () => take(await look("label", { do: "state" }));
  whenSeen(element, () => state.images.map((entry) => entry.id).join(), refresh);
}
