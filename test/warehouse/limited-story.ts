import { spawnSync } from 'node:child_process';
import { expect } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

const SCRIPT = new URL('limited-writes.ts', import.meta.url);

interface Told {
  name: string;
  /** How often the work was cut short. */
  cut: number;
  codes: string[];
  faults: string[];
  lost: string[];
}

/** Null where this machine cannot limit a process that runs. */
export function missingForLimits(): string | null {
  return spawnSync('prlimit', ['--version']).status === 0 ? null : 'there is no prlimit';
}

/** Cuts every piece of work short, at every so many bytes of its files; each has to be whole or not there at all. */
export async function expectWholeOrNothing(stepBytes: number, leastCut: number): Promise<void> {
  const { code, stdout, stderr } = await startScript(SCRIPT, [tempFolder(), String(stepBytes)]).ended;
  expect([code, stderr]).toEqual([0, '']);
  const told: Told[] = JSON.parse(stdout);
  expect(told).toHaveLength(5);
  for (const { name, cut, codes, faults, lost } of told) {
    expect({ name, faults, lost }).toEqual({ name, faults: [], lost: [] });
    expect([name, codes.filter((one) => one !== 'warehouse_full' && one !== 'warehouse_io')]).toEqual([name, []]);
    expect(cut).toBeGreaterThanOrEqual(leastCut);
  }
}
