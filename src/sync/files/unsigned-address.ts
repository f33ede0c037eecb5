/** Query parameters that sign an address for a while, as the clouds and CDNs write them. */
const SIGNING =
  /^(?:x-amz-.*|x-goog-.*|awsaccesskeyid|googleaccessid|signature|expires|key-pair-id|policy|sig|se|st|sp|spr|sr|sv|skoid|sktid|skt|ske|sks|skv|hmac|exp|token|verify)$/i;

/** The address without what signs it: two of the same text lead to the same file, whenever they were made. */
export function unsigned(address: string): string {
  const url = URL.parse(address);
  if (url === null) return address;
  for (const name of new Set(url.searchParams.keys())) if (SIGNING.test(name)) url.searchParams.delete(name);
  url.searchParams.sort();
  url.hash = '';
  return url.href;
}
