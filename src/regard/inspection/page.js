// What the page draws: the heatmap, the text, all heads at once.

// The heatmap.

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
const characters = (text) => [...text.normalize("NFC")].length;
function labels(holder, tokens, name) {
  const turned = name === "key" && tokens.some((token) => characters(token) > 1);
  holder.replaceChildren(...tokens.map((token) => {
    const label = element("div", token, turned ? name + " turned" : name);
    label.dir = "auto";
    return label;
  }));
}
function sizeLabels() {
  const cell = state.cell;
  const font = Math.max(Math.min(cell * 0.6, 14), LETTER);
  const step = Math.ceil((font * 1.1) / cell);
  for (const label of document.querySelectorAll(".key, .query")) {
    const place = [...label.parentNode.children].indexOf(label);
    const isKey = label.parentNode === $("top");
    label.style.fontSize = font + "px";
    label.style[isKey ? "width" : "height"] = cell + "px";
    label.style.lineHeight = cell + "px";
    label.style.overflow = step > 1 ? "visible" : "";
    label.style.visibility = place % step ? "hidden" : "";
  }
}
function fit() {
  const { query, key } = state.map;
  $("field").style.width = $("field").style.height = "0";
  const side = $("side").offsetWidth || 60;
  const top = $("top").offsetHeight || 40;
  const page = document.querySelector("main").clientWidth;
  // Beside the reading panel where the page is wide, above it where it is not.
  const across = (page > 900 ? page * 0.64 : page) - side - 12;
  const down = Math.max(window.innerHeight * 0.86 - top - 12, 240);
  const whole = Math.min(across / key.length, Math.max(down / query.length, 12), USUAL);
  state.cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(whole * state.zoom)));
  const width = key.length * state.cell, height = query.length * state.cell;
  $("field").style.width = width + "px";
  $("field").style.height = height + "px";
  sizeLabels();
  drawHeat(width, height);
  mark();
}
function drawHeat(width, height) {
  const { query, key } = state.map;
  const canvas = $("heat");
  const density = Math.min(window.devicePixelRatio || 1, 8192 / Math.max(width, height));
  const small = document.createElement("canvas");
  paint(small, matrix, query.length, key.length);
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const draw = canvas.getContext("2d");
  draw.imageSmoothingEnabled = false;
  draw.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (state.cell < 12) return;
  draw.fillStyle = theme() === "dark" ? "#0f1318" : "#ffffff";
  for (let i = 1; i < key.length; i++) draw.fillRect(Math.round((i * canvas.width) / key.length), 0, 1, canvas.height);
  for (let i = 1; i < query.length; i++) draw.fillRect(0, Math.round((i * canvas.height) / query.length), canvas.width, 1);
}
const place = () => state.hover || state;
function mark() {
  const { row, column } = place(), cell = state.cell;
  const put = (id, x, y, width, height) =>
    Object.assign($(id).style, { left: x + "px", top: y + "px", width: width + "px", height: height + "px" });
  put("row-mark", 0, row * cell, state.map.key.length * cell, cell);
  put("column-mark", column * cell, 0, cell, state.map.query.length * cell);
  put("cell-mark", column * cell, row * cell, cell, cell);
  document.querySelectorAll(".on").forEach((label) => label.classList.remove("on"));
  $("side").children[row].classList.add("on");
  $("top").children[column].classList.add("on");
}

// The text: the source as one output token sees it.

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
function direction(tokens) {
  return tokens.filter((token) => RIGHT_TO_LEFT.test(token)).length * 2 > tokens.length ? "rtl" : "ltr";
}
function write() {
  const { query, key } = state.map;
  $("output").dir = direction(query);
  $("source").dir = direction(key);
  $("output").replaceChildren(...query.map((token, i) => {
    const option = element("span", token);
    option.setAttribute("role", "option");
    option.setAttribute("aria-label", token + ", position " + i);
    return option;
  }));
  $("source").replaceChildren(...key.map((token, i) => {
    const span = element("span", token);
    span.addEventListener("pointermove", (event) => {
      const { row } = place();
      tip(event, query[row], token, weight(row, i), positions(row, i));
    });
    span.addEventListener("pointerleave", () => ($("tip").hidden = true));
    return span;
  }));
}
function strongest(row, count) {
  const order = state.map.key.map((_, i) => i).sort((a, b) => Math.abs(weight(row, b)) - Math.abs(weight(row, a)));
  return order.filter((i, n) => n < count && (n === 0 || weight(row, i) !== 0));
}
function read() {
  const { row } = place();
  $("chosen").textContent = state.map.query[row];
  [...$("output").children].forEach((option, i) => {
    option.setAttribute("aria-selected", String(i === row));
    option.tabIndex = i === state.row ? 0 : -1;
  });
  const end = limitOf(matrix, row);
  [...$("source").children].forEach((span, i) => {
    const rgb = colour(weight(row, i), end);
    span.style.background = `rgb(${rgb})`;
    span.style.color = inkOn(rgb);
  });
  $("strongest").replaceChildren("strongest: ", ...strongest(row, 3).flatMap((i, n) =>
    [n ? ", " : "", element("bdi", state.map.key[i]), " ", element("b", number(weight(row, i)))]));
}

// Saying what is pointed at.

const number = (value) => value.toFixed(4);
const apart = (text) => "\u2068" + text + "\u2069";
const positions = (row, column) => `query ${row}, key ${column}`;
function say(text) {
  $("readout").textContent = text;
}
function sayCell(before = "") {
  const { row, column } = state;
  const pair = `${apart(state.map.query[row])} → ${apart(state.map.key[column])}`;
  say(`${before}${pair}: ${number(weight(row, column))} (${positions(row, column)})`);
}
function tip(event, query, key, value, small) {
  const box = $("tip");
  box.replaceChildren(element("bdi", query), " → ", element("bdi", key), ": " + number(value), element("small", small));
  box.hidden = false;
  const x = event.clientX + 14, y = event.clientY + 18;
  box.style.left = Math.max(4, Math.min(x, window.innerWidth - box.offsetWidth - 6)) + "px";
  box.style.top = (y + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 10 : y) + "px";
}
function cellAt(event, canvas) {
  const box = canvas.getBoundingClientRect();
  const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
  return {
    row: inside((event.clientY - box.top) / box.height, state.map.query.length),
    column: inside((event.clientX - box.left) / box.width, state.map.key.length),
  };
}
function move(row, column, quietly) {
  state.row = Math.max(0, Math.min(state.map.query.length - 1, row));
  state.column = Math.max(0, Math.min(state.map.key.length - 1, column));
  state.hover = null;
  mark();
  read();
  if (!quietly) sayCell();
}
function hover(spot) {
  const before = place();
  state.hover = spot;
  const after = place();
  if (before.row === after.row && before.column === after.column) return;
  mark();
  if (before.row !== after.row) read();
}
function keepInSight() {
  const spot = $("cell-mark");
  spot.style.scrollMargin = `${$("top").offsetHeight + 4}px 16px 16px ${$("side").offsetWidth + 4}px`;
  spot.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// All heads at once.

function drawHeads() {
  const { query, key, heads } = state.map;
  // Full rows where a fair number of columns gives them.
  const room = Math.max(1, Math.floor(document.querySelector("main").clientWidth / 190));
  const whole = [...Array(room).keys()].map((i) => room - i).find((n) => heads % n === 0 && n > room / 2);
  $("heads").style.gridTemplateColumns = `repeat(${whole || room}, minmax(0, 22rem))`;
  $("heads").replaceChildren(...Array.from({ length: heads }, (_, head) => {
    const button = element("button");
    const canvas = element("canvas");
    const values = matrixOf(state.map, head);
    paint(canvas, values, query.length, key.length);
    canvas.style.aspectRatio = `${key.length} / ${query.length}`;
    canvas.addEventListener("pointermove", (event) => {
      const { row, column } = cellAt(event, canvas);
      const value = values[row * key.length + column];
      tip(event, query[row], key[column], value, `head ${head}, ${positions(row, column)}`);
    });
    canvas.addEventListener("pointerleave", () => ($("tip").hidden = true));
    const peak = values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
    button.type = "button";
    button.setAttribute("aria-label", `head ${head}, strongest weight ${number(peak)}; show it alone`);
    button.append(element("span", "head " + head), canvas);
    button.addEventListener("click", () => {
      $("tip").hidden = true;
      choose("head", String(head));
      $("heat").focus();
    });
    return button;
  }));
}

// What is shown.

function options(id, entries, chosen) {
  $(id).replaceChildren(...entries.map(([value, text]) => {
    const option = element("option", text);
    option.value = value;
    return option;
  }));
  $(id).value = chosen;
  $(id + "-label").hidden = entries.length < 2;
}
const mapsOf = (example) => data.maps.filter((map) => map.example === example);
function show() {
  const { map, head } = state;
  const all = head === "all";
  table = makeTable();
  matrix = matrixOf(map, all ? "mean" : head);
  const scale = $("scale").value;
  limit = scale === "unit" ? 1 : largest(all ? weightsOf(map) : matrix) || 1;
  // Within one sequence the rows are no output: both sides are the same tokens.
  const [asking, asked] = map.kind === "self" ? ["query", "key"] : ["output", "source"];
  for (const part of document.querySelectorAll(".query-name")) part.textContent = asking;
  for (const part of document.querySelectorAll(".key-name")) part.textContent = asked;
  const name = all ? "all heads" : head === "mean" ? `mean of ${map.heads} heads` : "head " + head;
  $("where").textContent = [map.address, map.kind + "-attention", ...(map.heads > 1 ? [name] : [])].join(" · ");
  document.querySelector(".columns").hidden = all;
  $("heads").hidden = !all;
  const hex = stops().map((stop) => "#" + stop);
  $("ramp").style.background = `linear-gradient(to right, ${hex})`;
  const end = String(Number(limit.toPrecision(4)));
  $("low").textContent = !map.zero ? "0" : scale === "row" ? "the row's largest, negative" : "-" + end;
  $("high").textContent = scale === "row" ? "the row's largest" : end;
  $("legend").setAttribute("aria-label", `Colours from ${$("low").textContent} to ${$("high").textContent}`);
  $("heat").setAttribute("aria-label",
    `${$("where").textContent}: ${map.query.length} ${asking} tokens by ${map.key.length} ${asked} tokens`);
  if (all) return drawHeads();
  fit();
  move(state.row, state.column, true);
}
function showMap(map) {
  const heads = [["mean", "mean of heads"], ["all", "all heads"]];
  for (let i = 0; i < map.heads; i++) heads.push([String(i), "head " + i]);
  if (state.head !== "mean" && state.head !== "all" && state.head >= map.heads) state.head = "mean";
  state.map = map;
  state.row = Math.min(state.row, map.query.length - 1);
  state.column = Math.min(state.column, map.key.length - 1);
  state.hover = null;
  options("address", mapsOf(map.example).map((one) => [one.address, one.address]), map.address);
  options("head", map.heads > 1 ? heads : [["mean", "the only head"]], map.heads > 1 ? String(state.head) : "mean");
  if (map.heads < 2) state.head = "mean";
  labels($("top"), map.key, "key");
  labels($("side"), map.query, "query");
  write();
  show();
}
// A select was changed, by hand or by a key.
function choose(id, value) {
  $(id).value = value;
  change(id, value);
  const name = apart($(id).selectedOptions[0].text);
  if (state.head === "all") return say(name);
  sayCell(name + ". ");
}
function change(id, value) {
  if (id === "head") {
    state.head = value === "mean" || value === "all" ? value : Number(value);
    show();
  } else if (id === "address") {
    showMap(mapsOf(state.map.example).find((map) => map.address === value));
  } else if (id === "example") {
    const maps = mapsOf(Number(value));
    if (!maps.length) return;
    showMap(maps.find((map) => map.address === state.map.address) || maps[0]);
    if (state.head !== "all") move(0, strongest(0, 1)[0]);
  } else {
    show();
  }
}
function next(id, by) {
  const list = $(id);
  if (list.options.length < 2) return;
  const index = (list.selectedIndex + by + list.options.length) % list.options.length;
  choose(id, list.options[index].value);
}
function zoom(by) {
  state.zoom = Math.max(0.1, Math.min(20, state.zoom * by));
  fit();
  keepInSight();
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  show();
}
function switchTheme() {
  chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  setTheme(chosenTheme);
}
