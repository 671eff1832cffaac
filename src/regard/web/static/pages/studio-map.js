// The page of a map of texts in the studio. Whoever steers it from outside, or from the console, finds its map as `regard`.

import { startMap } from "../studio/map.js";

startMap(document.body);
