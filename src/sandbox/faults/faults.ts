import { ANSWER_FAULTS } from './fault-answers.ts';
import { PAGE_FAULTS } from './fault-pages.ts';
import { WIRE_FAULTS } from './fault-wires.ts';

/** Every fault by its name: what the connection, the answer or the listing does wrong. */
export const FAULTS = { ...WIRE_FAULTS, ...ANSWER_FAULTS, ...PAGE_FAULTS } as const;

export type FaultName = keyof typeof FAULTS;

export function isFaultName(name: string): name is FaultName {
  return Object.hasOwn(FAULTS, name);
}
