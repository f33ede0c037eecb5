import { ANSWER_FAULTS } from './answer-faults.ts';
import { PAGE_FAULTS } from './page-faults.ts';
import { WIRE_FAULTS } from './connection-faults.ts';

/** Every fault by its name: what the connection, the answer or the listing does wrong. */
export const FAULTS = { ...WIRE_FAULTS, ...ANSWER_FAULTS, ...PAGE_FAULTS } as const;

export type FaultName = keyof typeof FAULTS;

export function isFaultName(name: string): name is FaultName {
  return Object.hasOwn(FAULTS, name);
}
