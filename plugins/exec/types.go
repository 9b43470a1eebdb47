package exec

// CodeRun is one request to run a program (docs/wire.md). Decoding it
// from JSON is as tolerant as clients need: see UnmarshalJSON.
type CodeRun struct {
	// Lang is a language id or alias, in any case. Required.
	Lang string `json:"lang"`
	// Code is the program, byte for byte. Required.
	Code string `json:"code"`
	// Args are the program's argv[1:], verbatim.
	Args []string `json:"args,omitempty"`
	// Files are inputs that some session already holds.
	Files []CodeFile `json:"files,omitempty"`
	// SessionID is the session to continue. One that is gone, or belongs to
	// somebody else, is as good as none.
	SessionID string `json:"session_id,omitempty"`
	// Timeout of the run in milliseconds; 0 is the default. It is brought within
	// what is allowed, never refused.
	Timeout int64 `json:"timeout,omitempty"`
	// UserID and EntityID are what the client says about itself. They decide
	// nothing.
	UserID   string `json:"user_id,omitempty"`
	EntityID string `json:"entity_id,omitempty"`
	// RuntimeSessionHint is carried and selects nothing: every session is warm.
	RuntimeSessionHint string `json:"runtime_session_hint,omitempty"`
}

// CodeFile is one file, as an input ref of a request or as an output of a reply
// (docs/wire.md).
type CodeFile struct {
	// ID is the file's id, or its path relative to /mnt/data.
	ID string `json:"id"`
	// Name is the path relative to /mnt/data at which a program finds it.
	Name string `json:"name"`
	// StorageSessionID is the session that holds the bytes. Clients also call it
	// session_id: both are read, both are written.
	StorageSessionID string `json:"storage_session_id,omitempty"`
	SessionID        string `json:"session_id,omitempty"`
	// Size is in bytes, of outputs only: there 0 is an empty file.
	Size int64 `json:"size"`
	// ContentType goes by the name's extension, of outputs only.
	ContentType string `json:"contentType,omitempty"`
	// Kind, ResourceID and Version say whose file it is in the client's own
	// terms: "user", "agent" or "skill". EntityID is an older client's word.
	Kind       string `json:"kind,omitempty"`
	ResourceID string `json:"resource_id,omitempty"`
	Version    *int64 `json:"version,omitempty"`
	EntityID   string `json:"entity_id,omitempty"`
	// Inherited marks an input that the run left as it was.
	Inherited bool `json:"inherited,omitempty"`
	// ModifiedFrom is the input that this file is a changed version of.
	ModifiedFrom *FileOrigin `json:"modified_from,omitempty"`
}

// FileOrigin names a file in a session.
type FileOrigin struct {
	ID               string `json:"id"`
	StorageSessionID string `json:"storage_session_id"`
}

// session returns where the bytes of a ref are said to be.
func (f *CodeFile) session(fallback string) string {
	switch {
	case f.StorageSessionID != "":
		return f.StorageSessionID
	case f.SessionID != "":
		return f.SessionID
	default:
		return fallback
	}
}

// CodeResult is what a run came to. A program that failed is a result like any
// other: its diagnostics are on Stderr.
type CodeResult struct {
	// SessionID is the session that the program ran in.
	SessionID string `json:"session_id"`
	// Stdout and Stderr are valid UTF-8, cut at the limits of the run. Stdout is
	// otherwise exactly what the program wrote; Stderr may begin and end with
	// lines of the interpreter.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Files are those that the run made or changed, then inputs it left alone.
	Files []CodeFile `json:"files"`
	// Code is the exit status, nil when the program did not end by itself.
	Code *int `json:"code"`
	// Signal that ended the program, for example "SIGSEGV".
	Signal *string `json:"signal"`
	// Status is nil, or why the run is not what the program meant it to be: "TO"
	// out of time, "SG" killed, "OL" output cut, "XX" lost.
	Status *string `json:"status"`
	// Message explains Status.
	Message *string `json:"message"`
	// WallTime is in milliseconds.
	WallTime int64 `json:"wall_time"`
	// DeletedFiles are names of files that were there before the run.
	DeletedFiles []string `json:"deleted_files,omitempty"`
	// ArtifactDelivery is set when changed files could not be handed over.
	ArtifactDelivery *ArtifactDelivery `json:"artifact_delivery,omitempty"`
	// PolicyWarnings are what policies would have denied that only warn.
	PolicyWarnings []PolicyWarning `json:"policy_warnings,omitempty"`
}

// PolicyWarning is a deny that is not enforced.
type PolicyWarning struct {
	Policy string `json:"policy"`
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason"`
}

// ArtifactDelivery counts files of a run that were lost to limits
// (docs/wire.md): Attempted = Delivered + Failed, Failed > 0.
type ArtifactDelivery struct {
	Code      string `json:"code"`
	Status    string `json:"status"`
	Attempted int    `json:"attempted"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}
