export interface ReadersRequest {
  /** As it stands in the database, upper and lower case told apart. */
  role: string;
  /** Take the rights away instead. */
  revoke: boolean;
}

/** What a role may read of one source now, or may no longer. */
export interface Readers {
  schema: string;
  /** The role was made just now, without a login. */
  isNew: boolean;
  /** Tables and views. */
  readable: string[];
  /** Those that belong to other roles: their rights are not ours to give. */
  others: string[];
}
