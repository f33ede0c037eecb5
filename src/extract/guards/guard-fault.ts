import { SyncError } from '../../model/errors.ts';
import { snippet } from '../../http/body/safe-text.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { PagePosition } from '../page.ts';

/** Why a walk cannot go on from an answer, found by a pure function; `walkError` makes it an error. */
export interface GuardFault {
  /** Stable: scripts may match on it. */
  code: string;
  message: string;
  /** The operator's next step. */
  hint: string;
}

/** The error that ends a walk: it names the page, and is never a reason to take the listing for complete. */
export function walkError(fault: GuardFault, position: PagePosition, cause?: unknown): SyncError {
  return new SyncError(fault.code, `${visibleText(fault.message)} (page ${snippet(readable(position), 300)})`, {
    recovery: 'stop',
    hint: visibleText(fault.hint),
    cause,
  });
}

/** The position with what stands in headers and body as JSON. */
function readable(position: PagePosition): string {
  const [address = '', values] = position.split('#');
  if (values === undefined) return address;
  try {
    return `${address} ${decodeURIComponent(values)}`;
  } catch {
    return position;
  }
}
