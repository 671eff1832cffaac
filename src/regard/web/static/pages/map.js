// The page of a map of vectors. Whoever steers it from outside, or from the console, finds it as `regard`.

import { mount } from "../map/map.js";
import { inlineSource } from "../source.js";

mount(document.body, inlineSource()).then((map) => Object.assign(window, { regard: map }));
