import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import path from 'node:path';
import type { Values } from './figures.ts';

/** Figures by machine, as `npm run bench -- --save` has found them. */
const FILE = path.join(import.meta.dirname, 'stored-runs.json');

interface StoredRun {
  /** `YYYY-MM-DD`. */
  saved: string;
  figures: Values;
}

type StoredRuns = Readonly<Record<string, StoredRun>>;

/** What figures depend on: processor, cores, Node, and how many records are copied. */
export function machineName(records: number): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  return `${model}, ${availableParallelism()} cores, Node ${process.versions.node}, ${records} records`;
}

/** The figures of this machine; null if none are stored. */
export function storedFigures(machine: string): StoredRun | null {
  return readRuns()[machine] ?? null;
}

/** Keeps the figures; what was not measured this time stays as it is. */
export function storeFigures(machine: string, figures: Values): void {
  const runs = readRuns();
  const saved = new Date().toISOString().slice(0, 10);
  const known = { ...runs[machine]?.figures, ...figures };
  const sorted = Object.fromEntries(Object.entries(known).toSorted(([a], [b]) => a.localeCompare(b)));
  writeFileSync(FILE, `${JSON.stringify({ ...runs, [machine]: { saved, figures: sorted } }, null, 2)}\n`);
}

function readRuns(): StoredRuns {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}
