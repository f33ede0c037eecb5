import type { PagePosition } from '../../extract/page.ts';
import { filledQuery } from '../../extract/page-styles/listing-request.ts';
import { joinPosition, splitPosition } from '../../extract/partitioned-walk.ts';
import type { TemplateValues } from '../../source/basic-fields.ts';

/** Only what stands behind the origin counts; a base makes it a URL. */
const ANYWHERE = 'http://localhost';

type Query = Readonly<Record<string, string>>;

/**
 * A position as a checkpoint may hold it: without the profile's own query parameters, of which any may be a secret. The
 * profile's headers and body are no part of a position. Null, which is the beginning, if the service itself wrote a secret into it: pages are then read twice.
 */
export function storedPosition(
  position: PagePosition | null,
  query: Query,
  scrub: (text: string) => string,
): PagePosition | null {
  if (position === null) return null;
  const { place, inner } = splitPosition(position);
  const own = changed(inner, query, (params, name) => params.delete(name));
  const stored = place === null ? own : joinPosition(place, own);
  return scrub(stored) === stored ? stored : null;
}

/** The position that `storedPosition` stored. `values` are those of the walk. */
export function positionFrom(stored: PagePosition | null, query: Query, values: TemplateValues): PagePosition | null {
  if (stored === null) return null;
  const { place, inner } = splitPosition(stored);
  const filled = filledQuery(query, place === null ? values : { ...values, partition: place.partition });
  const whole = changed(inner, filled, (params, name, value) => params.set(name, value));
  return place === null ? whole : joinPosition(place, whole);
}

function changed(
  position: PagePosition,
  query: Query,
  change: (params: URLSearchParams, name: string, value: string) => void,
): PagePosition {
  const entries = Object.entries(query);
  if (entries.length === 0 || position === '' || !URL.canParse(position, ANYWHERE)) return position;
  const url = new URL(position, ANYWHERE);
  for (const [name, value] of entries) change(url.searchParams, name, value);
  return url.pathname + url.search.replaceAll('+', '%20') + url.hash;
}
