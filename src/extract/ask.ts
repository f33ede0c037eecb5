import type { ApiAnswer, ApiClient, RequestMeter } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import type { Lane } from '../model/words.ts';
import { walkError } from './guard-fault.ts';
import type { PagePosition } from './page.ts';
import { positionOf, urlAt } from './position.ts';

/** How pages are asked for; the same for every page of a walk. */
export interface AskOptions {
  client: ApiClient;
  lane: Lane;
  meter: RequestMeter;
  signal?: AbortSignal | undefined;
}

/** Codes of an answer that, in the middle of a listing, means that the service no longer knows the position. */
const EXPIRED_CODES: ReadonlySet<string> = new Set(['not_found', 'gone', 'bad_request']);

/** Codes by which a page is refused that may not be there. */
export const REFUSED_CODES: ReadonlySet<string> = new Set([...EXPIRED_CODES, 'cursor_expired', 'listing_missing']);

/**
 * Asks for a page by position. Throws what the client throws; but a refusal (404, 410, another 4xx, outcome `skip`)
 * of any page except the first is `cursor_expired`: the walk has to start again from the beginning.
 */
export function askFor(options: AskOptions, first: URL): (at: PagePosition, stop?: AbortSignal) => Promise<ApiAnswer> {
  const { client, lane, meter } = options;
  const firstPosition = positionOf(first);
  return async (position, stop) => {
    const signal = eitherOf(options.signal, stop);
    try {
      const answer = await client.get({ url: urlAt(first, position), lane, meter, signal });
      if (answer.outcome === 'ok') return answer;
    } catch (error) {
      const expired = error instanceof SyncError && EXPIRED_CODES.has(error.code) && position !== firstPosition;
      throw expired ? expiredError(position, error) : error;
    }
    throw position === firstPosition ? skippedError(position) : expiredError(position);
  };
}

function eitherOf(...signals: (AbortSignal | undefined)[]): AbortSignal | undefined {
  const given = signals.filter((signal) => signal !== undefined);
  return given.length > 1 ? AbortSignal.any(given) : given[0];
}

function expiredError(position: PagePosition, cause?: SyncError): SyncError {
  const fault = {
    code: 'cursor_expired',
    message: `The service does not know this page of the listing${cause === undefined ? '' : `: ${cause.message}`}`,
    hint: 'Positions expire in some services: start this resource again from the beginning.',
  };
  return walkError(fault, position, cause);
}

function skippedError(position: PagePosition): SyncError {
  const fault = {
    code: 'listing_missing',
    message: 'The outcome rules leave out the first page of the listing',
    hint: 'Check the path of the resource and the outcomes in the profile.',
  };
  return walkError(fault, position);
}
