package shallow

// Counter counts elements of arrays in a body while it comes in, piece by piece, so that
// nobody reads, and keeps, millions of them first. Like the rest of the package it checks no
// JSON: of anything else it counts something.
type Counter struct {
	// Most bounds the elements of arrays that are members of the body's object, by name.
	Most map[string]int
	// Members bounds the members of that object, and Values all values of the body; 0 is no
	// bound.
	Members, Values int

	depth   int
	quoted  bool
	escaped bool
	name    [32]byte // of the last string at depth 1
	named   int      // its length; beyond len(name) it is no name of Most
	key     string   // of Most: whose value is being read
	array   bool     // the value is an array
	commas  int
	members int
	values  int
}

// Write counts what is in p. ErrTooMany comes with the name of the member that has too many
// elements, or with none if it is the body that has too much.
func (c *Counter) Write(p []byte) (field string, err error) {
	for i := 0; i < len(p); i++ {
		b := p[i]
		if c.quoted {
			switch {
			case c.escaped:
				c.escaped = false
			case b == '\\':
				c.escaped = true
				c.named = len(c.name) + 1 // nobody writes these names like that
			case b == '"':
				c.quoted = false
			case c.depth == 1 && c.named < len(c.name):
				c.name[c.named] = b
				c.named++
			case c.depth == 1:
				c.named = len(c.name) + 1
			}
			continue
		}
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			c.quoted = true
			if c.depth == 1 {
				c.named = 0
			}
		case ':':
			if c.depth == 1 {
				c.key, c.array = c.member(), false
				if c.members++; c.Members > 0 && c.members > c.Members {
					return "", ErrTooMany
				}
			}
		case '[', '{':
			c.values++
			if c.depth++; c.depth == 2 && b == '[' && c.key != "" {
				c.array, c.commas = true, 0
			}
		case ']', '}':
			if c.depth--; c.depth == 1 {
				c.key, c.array = "", false
			}
			continue
		case ',':
			c.values++
			if c.array && c.depth == 2 {
				// Another element follows, or this is no JSON.
				if c.commas++; c.commas >= c.Most[c.key] {
					return c.key, ErrTooMany
				}
			}
		}
		if c.Values > 0 && c.values > c.Values {
			return "", ErrTooMany
		}
	}
	return "", nil
}

func (c *Counter) member() string {
	if c.named > len(c.name) {
		return ""
	}
	for k := range c.Most {
		if k == string(c.name[:c.named]) {
			return k
		}
	}
	return ""
}
