/** The URL without these query parameters; all others stay as they are written. */
export function withoutParams(url: URL, names: readonly string[]): URL {
  if (names.length === 0 || url.search === '') return url;
  const parts = url.search.slice(1).split('&');
  const kept = parts.filter((part) => !names.includes(decodedName(part)));
  if (kept.length === parts.length) return url;
  const copy = new URL(url);
  copy.search = kept.join('&');
  return copy;
}

/** The URL with these parameters behind its own. By hand: `searchParams` would write all of the query anew. */
export function withAppended(url: URL, params: Readonly<Record<string, string>>): URL {
  const added = Object.entries(params).map((pair) => pair.map(encodeURIComponent).join('='));
  if (added.length === 0) return url;
  const copy = new URL(url);
  copy.search = [...(url.search === '' ? [] : [url.search.slice(1)]), ...added].join('&');
  return copy;
}

function decodedName(part: string): string {
  const [name = ''] = new URLSearchParams(part).keys();
  return name;
}

/**
 * The URL with the query parameters by which a profile names the version, those that it has not yet: a link of the
 * service's own keeps the version that it names. An address away from the origin `home` stays as it is.
 */
export function withVersionQuery(url: URL, query: Readonly<Record<string, string>>, home: string): URL {
  const missing = Object.entries(query).filter(([name]) => !url.searchParams.has(name));
  if (missing.length === 0 || url.origin !== home) return url;
  return withAppended(url, Object.fromEntries(missing));
}
