// The page of a training.

import { startTraining } from "../studio/training.js";

startTraining(document.body);
