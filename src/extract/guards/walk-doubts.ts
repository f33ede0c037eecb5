import type { Doubt } from './walk-end.ts';

/** What a walk's ledger shows at its end. */
export interface LedgerFacts {
  /** A record came again far behind its first page, or nothing of a page was found again. */
  hasSlipped: boolean;
  /** Records were on two neighbouring pages. */
  hasEntered: boolean;
  /** Pages by number told no total and shared no record. */
  isUnwatched: boolean;
  /** Records; null if nobody counted. */
  met: number | null;
  /** The smallest total that was told; null if none was. */
  leastTotal: number | null;
}

const AGAIN = 'run it again when less is changed; if this service can never prove it, accept: [end] in the profile';

/** What stands against a walk, the gravest first. Pure. */
export function doubtsOf({ hasSlipped, hasEntered, isUnwatched, met, leastTotal }: LedgerFacts): Doubt[] {
  const doubts: Doubt[] = [];
  if (hasSlipped) doubts.push(slipped);
  else if (hasEntered) doubts.push(entered);
  if (leastTotal !== null && met !== null && met < leastTotal) doubts.push(fewer(met, leastTotal));
  return isUnwatched ? [...doubts, unwatched] : doubts;
}

const slipped: Doubt = {
  code: 'slipped',
  message: 'records moved between the pages while they were read, so one may have slipped past unread',
  hint: AGAIN,
};

const entered: Doubt = {
  code: 'entered',
  message: 'records came onto pages that had been read already, and pushed others on',
  hint: AGAIN,
};

const unwatched: Doubt = {
  code: 'unwatched',
  message: 'the listing is cut by page numbers and tells no total, so records that moved between pages would not show',
  hint: 'name where the service tells the total (page.total), or use offset pages, which show it by themselves',
};

function fewer(met: number, total: number): Doubt {
  return {
    code: 'fewer',
    message: `the listing ended after ${met} records, but tells a total of ${total}`,
    hint: 'if the total counts more than is listed, set page.total: null in the profile; else report it to the service',
  };
}
