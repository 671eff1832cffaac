// The page of the studio. Whoever steers it from outside, or from the console, finds its viewer as `regard`.

import { startStudio } from "../studio/studio.js";
import { linkWithKey } from "../studio/training.js";

linkWithKey(document.body, "training");
linkWithKey(document.body, "map");
startStudio(document.body);
