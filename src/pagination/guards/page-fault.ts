import { snippet } from '../../http/body/safe-text.ts';
import { SyncError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { PagePosition } from '../page.ts';

/** Why a scan cannot continue after a response, as a pure function found it; `pageError` makes it an error. */
export interface PageFault {
  /** Stable: scripts may match on it. */
  code: string;
  message: string;
  /** The operator's next step. */
  hint: string;
}

/** The response lacks the next page and the end of the listing. */
export function missingFault(message: string, hint: string): PageFault {
  return { code: 'pagination_missing', message, hint };
}

/** The error that ends a scan. It names the page. */
export function pageError(fault: PageFault, position: PagePosition, cause?: unknown): SyncError {
  return new SyncError(fault.code, `${visibleText(fault.message)} (page ${snippet(toReadable(position), 300)})`, {
    recovery: 'stop',
    hint: visibleText(fault.hint),
    cause,
  });
}

/** Shows the values in headers and body as JSON. */
function toReadable(position: PagePosition): string {
  const [address = '', values] = position.split('#');
  if (values === undefined) return address;
  try {
    return `${address} ${decodeURIComponent(values)}`;
  } catch {
    return position;
  }
}
