/**
 * The URL with the query parameters by which a profile names the version, those that it has not yet: a link of the
 * service's own keeps the version that it names. An address away from the origin `home` stays as it is.
 */
export function withVersionQuery(url: URL, query: Readonly<Record<string, string>>, home: string): URL {
  const missing = Object.entries(query).filter(([name]) => !url.searchParams.has(name));
  if (missing.length === 0 || url.origin !== home) return url;
  const added = missing.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
  const asked = new URL(url);
  // By hand: `searchParams` would write all of the query anew.
  asked.search = asked.search === '' ? added : `${asked.search}&${added}`;
  return asked;
}
