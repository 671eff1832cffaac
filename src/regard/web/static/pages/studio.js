// The page of the studio. Whoever steers it from outside, or from the console, finds its viewer as `regard`.

import { startStudio } from "../studio/studio.js";

startStudio(document.body);
