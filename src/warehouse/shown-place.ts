import { postgresPlace } from './postgres/connection/address.ts';

/** Where a warehouse is, as a person would look for it; never with user or password. */
export function shownPlace(address: string): string {
  return address.startsWith('postgres:') ? postgresPlace(address.slice('postgres:'.length)).shown : address;
}
