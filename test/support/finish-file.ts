import { afterAll } from 'vitest';
import { finishFile } from './file-finished.ts';

afterAll(finishFile);
