import { requestAt, singleRequest, type BuiltRequest, urlAt } from '../../extract/page-styles/listing-request.ts';
import { saysNothing, withEmptyHint } from '../../extract/requests/ask.ts';
import { goneBy } from '../../extract/read-item.ts';
import type { ApiAnswer, ApiRequest } from '../../http/client.ts';
import type { TemplateValues } from '../../source/basic-fields.ts';
import type { ChangeFeed } from '../../source/change-feed.ts';
import type { ResourceContext } from '../resource-context.ts';
import { positionFrom } from '../walk/stored-position.ts';
import type { FeedPlace } from './feed-step.ts';

type FeedRequest = Pick<ChangeFeed, 'path' | 'method' | 'query' | 'headers' | 'body'>;

/** One answer of the feed behind a place; null if the service no longer knows that. Throws what the client throws. */
export async function askFeed(
  context: ResourceContext,
  feed: ChangeFeed,
  { cursor, page }: FeedPlace,
): Promise<ApiAnswer | null> {
  const from = page ?? cursor;
  const request = feed.url && from !== null ? followed(context, feed, from) : built(context, feed, { cursor, page });
  const isExpired = goneBy(from === null ? null : feed.expired);
  let isNothing = false;
  const isGone: typeof isExpired = (found) => {
    const expired = isExpired(found);
    isNothing = !expired && saysNothing(found, context.profile.empty, true);
    return expired || isNothing;
  };
  const answer = await ask(context, request, { isGone });
  if (answer.outcome === 'ok') return answer;
  return isNothing ? { ...answer, outcome: 'ok' } : null;
}

/** The answer that names the present end of the feed. */
export function askStart(context: ResourceContext, start: FeedRequest): Promise<ApiAnswer> {
  return ask(context, built(context, start, {}), {});
}

function ask(
  { client, meter, signal }: ResourceContext,
  request: BuiltRequest,
  known: Pick<ApiRequest, 'isGone'>,
): Promise<ApiAnswer> {
  return client.get({ ...request, ...known, lane: 'incremental', meter, signal }).catch((error: unknown) => {
    throw withEmptyHint(error);
  });
}

function built({ listing, profile }: ResourceContext, request: FeedRequest, values: TemplateValues): BuiltRequest {
  return singleRequest({ target: listing, templates: templatesOf(request, profile.path), values });
}

/** The address that the service named. */
function followed({ listing, profile }: ResourceContext, feed: ChangeFeed, stored: string): BuiltRequest {
  const url = urlAt(listing.baseUrl, positionFrom(stored, feed.query, {}) ?? stored);
  return requestAt({ target: listing, templates: { ...templatesOf(feed, profile.path), query: {} }, values: {} }, url);
}

function templatesOf({ path, ...request }: FeedRequest, otherwise: string) {
  return { ...request, path: path ?? otherwise };
}
